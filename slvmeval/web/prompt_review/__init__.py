"""Prompt review."""
