"""Prompts from a user's own videos. Others use `flow`."""
