"""Suites score generated video in many dimensions. Used elsewhere: base, registry, plan and scoring."""
