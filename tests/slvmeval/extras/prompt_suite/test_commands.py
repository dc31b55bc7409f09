"""`suite prompts` as a person types it: drafts, files to edit, the rest, and the table."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tasks.extras.prompt_suite.drafts import Version
from tasks.extras.prompt_suite.edit_files import write_edit_files
from tasks.extras.prompt_suite.project import Draft, Project
from tasks.extras.prompt_suite.videos import SourceVideo
from tests.slvmeval.cli.running import Run, lacks
from tests.slvmeval.cli.test_suite import read
from tests.tasks.extras.prompt_suite.author import CALLS_TO_DRAFT, CALLS_TO_END, SECOND, Author
from tests.tasks.scoring.judges.short_films import short_film
from tests.tiny_models.faulty_server import FaultyServer


def making(folder: Path, server: FaultyServer) -> tuple[list[str], list[str]]:
    """Words for the site and settings of a server, and those that make prompts from its answers."""
    profile = folder / "site.toml"
    profile.write_text(f'[model_servers]\ns = "{server.url}"\n')
    model = '{"model": "tiny", "server": "s"}'
    settings = [f"multimodal={model}", f"language={model}", "rounds=1", "least_words=8", "most_words=30"]
    site = ["--store", str(folder / "store"), "--profile", str(profile), "--quiet"]
    site += [word for one in settings for word in ("--set", one)]
    return site, ["suite", "prompts", "make", str(folder / "videos"), "--out", str(folder / "prompts"), *site]


@pytest.mark.usefixtures("figures_unsaved")
def test_from_videos_to_a_table(tmp_path: Path, ffmpeg: str, run: Run) -> None:
    for number in range(2):
        short_film(ffmpeg, tmp_path / "videos" / f"v{number}.mp4", 1.0, number * 90)
    (tmp_path / "videos" / "broken.mp4").write_bytes(b"no video")
    folder = tmp_path / "prompts"
    with FaultyServer(Author()) as server:
        site, words = making(tmp_path, server)
        estimated = run(*words, "--dry-run", "--format", "json").json
        assert (estimated["calls"], estimated["usd"]) == (2 * (CALLS_TO_DRAFT + CALLS_TO_END), None)
        assert not server.seen
        assert [one["where"] for one in estimated["left_out"]] == ["broken.mp4"]
        output = run(*words, "--dry-run").out
        assert not lacks(output, "$: unknown", "left out: broken.mp4")
        prices = tmp_path / "prices.toml"
        prices.write_text('as_of = "2020-01"\n[models.tiny]\ninput_per_million = 1\noutput_per_million = 1\n')
        output = run(*words, "--dry-run", "--set", f"prices={prices}").out
        assert not lacks(output, "$: 0.0", "prices of 2020-01")
        output = run(*words, "--max-dollars", "1", code=3).out
        assert "model 'tiny' has no price" in output
        assert "to continue" not in output
        output = run(*words, "--max-dollars", "0.0000001", "--set", f"prices={prices}", code=3).out
        assert "2 prompts were not continued: the limit of 1e-07 dollars is too small" in output
        assert "give a higher one" in output
        assert "to continue" not in output
        states = run(*words, "--max-tokens", "1", "--format", "json", code=3).json["prompts"]
        assert {one["state"] for one in states} == {"unfinished"}
        assert not server.seen
        output = run(*words, code=3).out
        assert not lacks(output, "2 drafts are waiting for review", "left out: broken.mp4")
        accept = ("suite", "prompts", "review", folder, "--edited")
        assert "review --edit" in run(*accept, code=1).err
        run("suite", "prompts", "review", "--edit", folder)
        file = folder / "edit" / "v0.md"
        accepted = file.read_text().replace("verdict: open", "verdict: accepted").replace("blue", "green")
        file.write_text(accepted)
        assert "1 accepted, 0 left out, 1 open, 0 files are not usable" in run(*accept).out
        file.write_text(file.read_text().replace("verdict: accepted", "verdict: hm"))
        run(*accept, code=3)
        assert "--as-drafted: not with --edited" in run(*accept, "--as-drafted", code=2).error
        run(*accept[:-1], "--as-drafted", "--by", "Anna")
        summary = run(*words, "--format", "json", code=3).json
        assert [one["state"] for one in summary["prompts"]] == ["ready", "ready"]
        # the same assessment has the same questions: they are paid for once
        assert summary["calls"] == 2 * CALLS_TO_END - 14
        prompts = [json.loads(line) for line in (folder / "prompts.jsonl").read_text().splitlines()]
        assert [one["details"]["base"] for one in prompts] == [SECOND.replace("blue", "green"), SECOND]
        run(*words, code=3)
        paid = 2 * (CALLS_TO_DRAFT + CALLS_TO_END) - 14
        assert len(server.seen) == paid
        other = tmp_path / "other.csv"
        other.write_text("prompt_id,text\np1,A ball\n")
        table = ["suite", "prompts", "statistics", folder / "prompts.jsonl", other, "--set", "paper=true"]
        table += ["--out", tmp_path / "tables"]
        run(*table)
        assert rows(tmp_path)["other"]["complexity"] == ""
        run(*table, "--ask", *site)
        assert len(server.seen) == paid + 1
    table_rows = rows(tmp_path)
    assert (table_rows["prompts"]["samples"], table_rows["prompts"]["semantic"]) == ("2", "7.0")
    assert float(table_rows["other"]["complexity"]) == pytest.approx(17.5 / 3)
    assert table_rows["LoCoT2V-Bench (paper)"]["words"] == "236.66"
    assert (tmp_path / "tables" / "prompt-complexity.tex").is_file()


def test_more_tries_continue_where_no_answer_fitted(tmp_path: Path, ffmpeg: str, run: Run) -> None:
    short_film(ffmpeg, tmp_path / "videos" / "v.mp4", 1.0)
    author = Author(lambda step, text, count: {"description": 5} if step == "describe" else None)
    with FaultyServer(author) as server:
        _, words = making(tmp_path, server)
        assert "--set tries=N, with a larger N than before" in run(*words, code=3).out
        author.odd = None
        run(*words, code=3)
        assert author.asked["describe"] == 3
        assert "1 drafts are waiting for review" in run(*words, "--set", "tries=4").out
        assert author.asked["describe"] == 4


def test_a_file_of_which_something_else_was_reported_since_counts_apart(tmp_path: Path, run: Run) -> None:
    project = Project(tmp_path)
    video = SourceVideo(prompt_id="p1", path="/videos/p1.mp4", digest="d")
    draft = Draft(video=video, versions=(Version(text="A ball."),))
    project.keep_draft(draft)
    ((file,), _) = write_edit_files(project)
    file.write_text(file.read_text().replace("verdict: open", "verdict: accepted"))
    os.utime(file, (1_000_000_000, 1_000_000_000))
    output = run("suite", "prompts", "review", tmp_path, "--edited").out
    assert "1 accepted, 0 left out" in output
    assert "replaced" not in output
    project.review("p1", draft.digest, "left_out", "")
    output = run("suite", "prompts", "review", tmp_path, "--edited").out
    assert not lacks(output, "0 accepted, 0 left out", "1 file with texts that were replaced later", "p1")


def rows(tmp_path: Path) -> dict[str, dict[str, str]]:
    return {row["suite"]: row for row in read(tmp_path / "tables" / "prompt-complexity.csv")}
