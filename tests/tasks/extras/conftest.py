"""Fixtures of the tests of evaluators."""

from tests.tasks.scoring.conftest import built, film_path, seen

__all__ = ["built", "film_path", "seen"]
