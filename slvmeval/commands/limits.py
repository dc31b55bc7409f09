"""Options of commands that pay: what a run may take, and what it would take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

LIMITS_PANEL = "What it may take"

MostDollarsOption = Annotated[
    float | None,
    typer.Option(
        "--most-dollars", min=0, help="End the run before it costs more.", rich_help_panel=LIMITS_PANEL
    ),
]
MostTokensOption = Annotated[
    int | None,
    typer.Option(
        "--most-tokens", min=0, help="End the run before it takes more.", rich_help_panel=LIMITS_PANEL
    ),
]
PricesOption = Annotated[
    Path | None,
    typer.Option(
        "--prices", metavar="FILE", help="A price list in place of ours.", rich_help_panel=LIMITS_PANEL
    ),
]
DryRunOption = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Only say what it would take; nobody is asked.", rich_help_panel=LIMITS_PANEL
    ),
]
