"""Meta-evaluation benchmarks of others, a user's own pairs, and the proxy study. Others use provider and
proxy_study.
"""
