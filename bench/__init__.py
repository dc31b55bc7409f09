"""Benchmarks: ``python -m bench`` measures the figures of ``docs/benchmarks.md``; other modules run alone.

Nothing here is part of the installed package. Some modules use the servers and films of ``tests``.
"""
