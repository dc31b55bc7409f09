"""Commands are called in this process."""

from tests.slvmeval.cli.conftest import quick_commands

__all__ = ["quick_commands"]
