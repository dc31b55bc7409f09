"""Factories of tiny checkpoints of the real model classes, with random weights."""
