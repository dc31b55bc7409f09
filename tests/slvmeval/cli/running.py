"""Commands run in this process, and what they print."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple


class Printed(NamedTuple):
    """What a command printed."""

    out: str
    err: str

    @property
    def json(self) -> Any:
        """The output as JSON."""
        return json.loads(self.out)

    @property
    def text(self) -> str:
        """The output with single spaces, however its lines were folded."""
        return " ".join(self.out.split())

    @property
    def error(self) -> str:
        """The errors with single spaces, without the frame around them."""
        return " ".join(self.err.replace("│", " ").split())


#: `run("status", "--store", folder, code=1)` asserts the exit code.
Run = Callable[..., Printed]

#: Above the largest number of a process on Linux.
NO_PROCESS = 1 << 22
