"""Commands are called in this process."""

from tests.slvmeval.cli.conftest import _get_command, _quick_commands, no_more_figures, run

__all__ = ["_get_command", "_quick_commands", "no_more_figures", "run"]
