"""Prompts from a user's own videos. Public module: `flow`."""
