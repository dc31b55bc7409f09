"""Evaluators: systems that say which of two videos is better for an aspect, or how good one is."""
