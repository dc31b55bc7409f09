"""Other people's meta-evaluation sets, a user's own pairs, and the proxy study. Others use provider and
proxy_study.
"""
