"""The compose files of infra/postgres as docker compose reads them: joined, their variables filled in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from tests.flows.prefect_servers import ROOT

FOLDER = ROOT / "infra" / "postgres"


def filled(value: Any, variables: Mapping[str, str]) -> Any:
    """Replace ``${NAME}``, ``${NAME:-default}`` and ``${NAME:?message}``; KeyError where one is missing."""
    if isinstance(value, dict):
        return {key: filled(inner, variables) for key, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, variables) for inner in value]
    if not isinstance(value, str):
        return value

    def one(found: re.Match[str]) -> str:
        if found[2] == ":-":
            return variables.get(found[1]) or found[3]
        return variables[found[1]]

    return re.sub(r"\$\{(\w+)(?:(:-|:\?)([^}]*))?\}", one, value)


def services(variables: Mapping[str, str], *names: str) -> dict[str, Any]:
    """Return the services of some files, by name."""
    result: dict[str, Any] = {}
    for name in names:
        result |= yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))["services"]
    return filled(result, variables)
