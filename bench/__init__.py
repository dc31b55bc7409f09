"""Benchmarks: ``python -m bench`` measures the figures in ``bench/README.md``; others run by themselves.

They are not part of the installed package. Some modules use the servers and films of ``tests``.
"""
