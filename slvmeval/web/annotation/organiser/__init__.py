"""Organiser."""
