"""Flows of optional suites, one folder each."""
