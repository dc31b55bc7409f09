"""Suites score generated video in many dimensions. Others use base, registry, plan and scoring."""
