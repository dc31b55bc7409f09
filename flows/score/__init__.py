"""Evaluators judge a release, suites score videos. Others use `evaluate_options`, `suite_options`, the runs
and `results`.
"""
