"""The flow that makes prompts, with Prefect and without."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flows.command_runs import run_flow
from flows.extras.prompt_suite.deployed import prompts_slvmeval
from flows.extras.prompt_suite.flow import PROMPTS
from flows.extras.prompt_suite.parameters import PromptsParameters
from flows.extras.prompt_suite.run import PromptsResult
from infra.prefect_server import prefect_server
from storage_schemas.errors import UserInputError
from tests.flows.prefect_servers import PrefectServer
from tests.tasks.extras.prompt_suite.author import CALLS_TO_DRAFT, CALLS_TO_END, Author
from tests.tasks.scoring.judges.short_films import short_film
from tests.tiny_models.faulty_server import FaultyServer

MODEL = '{"model": "tiny", "server": "s"}'
SETTINGS = (f"multimodal={MODEL}", f"language={MODEL}", "rounds=1", "least_words=8", "most_words=30")


def make_prompts(**given: Any) -> PromptsResult:
    """Make prompts without Prefect, from the parameters of a form."""
    parameters = PromptsParameters.of_form(given)
    site = parameters.site_on_worker()
    return run_flow(PROMPTS, PROMPTS.options(parameters, site), site, direct=True, quiet=True)


@pytest.mark.slow
@pytest.mark.xdist_group("prefect-server")
@pytest.mark.usefixtures("client")
def test_a_run_of_the_flow(
    tmp_path: Path, ffmpeg: str, shared_server: PrefectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", shared_server.api)
    short_film(ffmpeg, tmp_path / "videos" / "a.mp4", 1.0)
    (tmp_path / "videos" / "b.mp4").write_bytes(b"no video")
    with FaultyServer(Author()) as server:
        (tmp_path / "site.toml").write_text(
            f'store = "{tmp_path / "store"}"\n[model_servers]\ns = "{server.url}"\n'
        )
        given: dict[str, Any] = {
            "videos": str(tmp_path / "videos"),
            "out": str(tmp_path / "prompts"),
            "settings": SETTINGS,
            "profile": str(tmp_path / "site.toml"),
        }
        would = make_prompts(**given, dry_run=True)
        assert f"1 videos would take at most {CALLS_TO_DRAFT + CALLS_TO_END} calls" in would.in_words()
        assert "unknown dollars" in would.in_words()
        limited = make_prompts(**given, max_tokens=1)
        assert [row["state"] for row in limited.rows()] == ["unfinished", "cannot be used"]
        assert "1 unfinished" in limited.in_words()
        assert "the limit of 1 tokens" in limited.in_words()
        (tmp_path / "prices.toml").write_text(
            "[models.tiny]\ninput_per_million = 1\noutput_per_million = 1\n"
        )
        priced = make_prompts(**given, max_dollars=1e-9, prices=str(tmp_path / "prices.toml"))
        assert "the limit of 1e-09 dollars" in priced.in_words()
        assert not server.seen
        first = make_prompts(**given)
        assert first.in_words() == (
            f"Prompts in {tmp_path / 'prompts'}: 1 waiting for a person, 1 of unusable videos"
        )
        assert len(server.seen) == CALLS_TO_DRAFT
        with prefect_server():
            dry: Any = prompts_slvmeval(**given, dry_run=True)
            result: Any = prompts_slvmeval(**given, without_review=True)
            failed: Any = prompts_slvmeval(**{**given, "out": "here"}, return_state=True)
        assert dry.expected.calls == CALLS_TO_END
        assert [one.state for one in result.made] == ["ready"]
        assert [row["state"] for row in result.rows()] == ["ready", "cannot be used"]
        assert len(server.seen) == CALLS_TO_DRAFT + CALLS_TO_END
    assert failed.is_failed()
    assert "'here' is not an absolute path" in str(failed.message)
    (line,) = (tmp_path / "prompts" / "prompts.jsonl").read_text().splitlines()
    assert json.loads(line)["prompt_id"] == "a"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"videos": ""}, "videos is empty"),
        ({"out": "prompts"}, "not an absolute path"),
        ({"concurrency": 0}, "concurrency: must be "),
        ({"max_dollars": -1.0}, "max_dollars: must be "),
        ({"prices": "prices.toml"}, "not an absolute path"),
        ({"settings": ("rounds",)}, "write KEY=VALUE"),
        ({"settings": ("rond=1",)}, "no setting 'rond'"),
        ({"settings": ("prompts=/nowhere",)}, "/nowhere is not a folder"),
    ],
)
def test_what_does_not_fit_is_reported_before_any_work(
    tmp_path: Path, change: dict[str, Any], why: str
) -> None:
    given = {"videos": str(tmp_path), "out": str(tmp_path / "p"), "store": str(tmp_path / "s")}
    with pytest.raises(UserInputError, match=why):
        make_prompts(**{**given, **change})
    assert not (tmp_path / "p").exists()
