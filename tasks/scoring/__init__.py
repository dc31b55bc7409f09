"""Evaluators and suites score videos: shared types, pairs, requests and the work of a run."""
