"""The checks of ``slvmeval doctor`` of servers that builds call: Prefect's, and those of models."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator

from infra.profile import Profile
from slvmeval.commands.finding import Finding, Verdict

_PATIENCE_S = 10.0


def check_servers(site: Profile, where: str) -> Iterator[Finding]:
    """Check that Prefect's server and the model servers answer, those that are named."""
    yield from check_prefect(site, where)
    for name, address in site.model_servers.items():
        yield check_model_server(name, address, where)


def check_prefect(site: Profile, where: str) -> Iterator[Finding]:
    """Check that Prefect's server answers, if there is one but the build's own."""
    address, key = site.prefect_api_url, f"prefect_api_url in {where}"
    if not address:
        address, key = os.environ.get("PREFECT_API_URL"), "the variable PREFECT_API_URL"
    if not address:
        return
    try:
        _get(f"{address.rstrip('/')}/health")
    except (OSError, ValueError) as problem:
        yield Finding(
            "prefect",
            Verdict.FAIL,
            f"{address} does not answer ({_why(problem)}): start it (prefect server start), or change {key}",
        )
        return
    yield Finding("prefect", Verdict.OK, f"builds use the server at {address}")


def check_model_server(name: str, address: str, where: str) -> Finding:
    """Check that an OpenAI-compatible server says which models it has."""
    base = address.rstrip("/").removesuffix("/v1")
    what = f"server {name}"
    try:
        answer = json.loads(_get(f"{base}/v1/models"))
        models = ", ".join(str(model["id"]) for model in answer["data"])
    except (OSError, ValueError, KeyError, TypeError) as problem:
        return Finding(
            what,
            Verdict.FAIL,
            f"{base}/v1/models does not answer as it should ({_why(problem)}): start that server, or change "
            f"model_servers.{name} in {where}",
        )
    return Finding(what, Verdict.OK, f"{base} has {models or 'no models'}")


def _get(address: str) -> str:
    if not address.startswith(("http://", "https://")):
        raise ValueError("an address begins with http:// or https://")
    with urllib.request.urlopen(address, timeout=_PATIENCE_S) as answer:
        return str(answer.read().decode("utf-8"))


def _why(problem: Exception) -> str:
    if isinstance(problem, urllib.error.HTTPError):
        return f"HTTP {problem.code}"
    if isinstance(problem, urllib.error.URLError):
        return str(problem.reason)
    return f"{type(problem).__name__}: {problem}"
