"""Benchmarks: ``python -m bench`` measures the figures of ``bench/README.md``; other modules are programs.

They are not part of the installed package. Some modules use the servers and films of ``tests``.
"""
