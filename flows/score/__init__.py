"""Evaluators judge a release, suites score videos. Public modules: `options`, `results` and the two runs."""
