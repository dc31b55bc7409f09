"""Suites: systems that score generated video in many dimensions, after papers of other groups."""
