"""Benchmarks: ``python -m bench`` measures the figures in ``bench/README.md``; other modules are separate
programs.

They are not part of the installed package. Some modules use the servers and films of ``tests``.
"""
