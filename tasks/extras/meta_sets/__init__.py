"""Meta-evaluation benchmarks of others, a user's own pairs, and the proxy study. Used elsewhere: provider and
proxy_study.
"""
