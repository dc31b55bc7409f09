"""Evaluators judge a release, suites score videos. Others use `options`, the two runs and `results`."""
