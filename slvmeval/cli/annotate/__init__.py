"""Annotate."""
