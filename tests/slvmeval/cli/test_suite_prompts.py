"""`suite prompts` as a person types it: drafts, files to edit, the rest, and the table."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import pytest

from slvmeval.cli.main import main
from tasks.prompt_suite.drafts import Version
from tasks.prompt_suite.edit_files import write_edit_files
from tasks.prompt_suite.project import Draft, Project
from tasks.prompt_suite.videos import SourceVideo
from tests.tasks.prompt_suite.author import CALLS_TO_DRAFT, CALLS_TO_END, SECOND, Author
from tests.tasks.scoring.judges.short_films import short_film
from tests.tiny_models.faulty_server import FaultyServer

Capture = pytest.CaptureFixture[str]


def test_from_videos_to_a_table(tmp_path: Path, ffmpeg: str, capsys: Capture) -> None:
    for number in range(2):
        short_film(ffmpeg, tmp_path / "videos" / f"v{number}.mp4", 1.0, number * 90)
    (tmp_path / "videos" / "broken.mp4").write_bytes(b"no video")
    folder = tmp_path / "prompts"
    with FaultyServer(Author()) as server:
        profile = tmp_path / "site.toml"
        profile.write_text(f'[model_servers]\ns = "{server.url}"\n')
        site = ["--store", str(tmp_path / "store"), "--profile", str(profile), "--quiet"]
        model = '{"model": "tiny", "server": "s"}'
        settings = [f"multimodal={model}", f"language={model}", "rounds=1", "least_words=8", "most_words=30"]
        given = [word for one in settings for word in ("--set", one)]
        words = ["suite", "prompts", "make", str(tmp_path / "videos"), "--out", str(folder), *site, *given]
        assert main([*words, "--dry-run", "--json"]) == 0
        estimated = json.loads(capsys.readouterr().out)
        assert estimated["calls"] == 2 * (CALLS_TO_DRAFT + CALLS_TO_END)
        assert not server.seen
        assert estimated["usd"] is None
        assert [one["where"] for one in estimated["left_out"]] == ["broken.mp4"]
        assert main([*words, "--dry-run"]) == 0
        output = capsys.readouterr().out
        assert "$: unknown" in output
        assert "left out: broken.mp4" in output
        prices = tmp_path / "prices.toml"
        prices.write_text('as_of = "2020-01"\n[models.tiny]\ninput_per_million = 1\noutput_per_million = 1\n')
        assert main([*words, "--dry-run", "--prices", str(prices)]) == 0
        assert "$: 0.0" in (output := capsys.readouterr().out)
        assert "prices of 2020-01" in output
        assert main([*words, "--most-dollars", "1"]) == 3
        output = capsys.readouterr().out
        assert "model 'tiny' has no price" in output
        assert "to continue" not in output
        assert main([*words, "--most-dollars", "0.0000001", "--prices", str(prices)]) == 3
        output = capsys.readouterr().out
        assert "2 prompts are not gone on with: the limit of 1e-07 dollars is too small" in output
        assert "give a higher one" in output
        assert "to continue" not in output
        assert main([*words, "--most-tokens", "1", "--json"]) == 3
        assert {one["state"] for one in json.loads(capsys.readouterr().out)["prompts"]} == {"unfinished"}
        assert not server.seen
        assert main(words) == 3
        output = capsys.readouterr().out
        assert "2 drafts wait for a person" in output
        assert "left out: broken.mp4" in output
        assert main(["suite", "prompts", "accept", str(folder)]) == 1
        assert "review --edit" in capsys.readouterr().err
        assert main(["suite", "prompts", "review", "--edit", str(folder)]) == 0
        file = folder / "edit" / "v0.md"
        file.write_text(
            file.read_text().replace("verdict: open", "verdict: accepted").replace("blue", "green")
        )
        assert main(["suite", "prompts", "accept", str(folder)]) == 0
        assert "1 accepted, 0 left out, 1 open, 0 files do not fit" in capsys.readouterr().out
        file.write_text(file.read_text().replace("verdict: accepted", "verdict: hm"))
        assert main(["suite", "prompts", "accept", str(folder)]) == 3
        assert main(["suite", "prompts", "accept", str(folder), "--as-drafted", "--by", "Anna"]) == 0
        capsys.readouterr()
        assert main([*words, "--json"]) == 3
        summary = json.loads(capsys.readouterr().out)
        assert [one["state"] for one in summary["prompts"]] == ["ready", "ready"]
        # the same assessment has the same questions: they are paid for once
        assert summary["calls"] == 2 * CALLS_TO_END - 14
        prompts = [json.loads(line) for line in (folder / "prompts.jsonl").read_text().splitlines()]
        assert [one["details"]["base"] for one in prompts] == [SECOND.replace("blue", "green"), SECOND]
        assert main(words) == 3
        paid = 2 * (CALLS_TO_DRAFT + CALLS_TO_END) - 14
        assert len(server.seen) == paid
        other = tmp_path / "other.csv"
        other.write_text("prompt_id,text\np1,A ball\n")
        table = ["suite", "prompts", "statistics", str(folder / "prompts.jsonl"), str(other), "--paper"]
        table += ["--out", str(tmp_path / "tables")]
        assert main(table) == 0
        assert rows(tmp_path)["other"]["complexity"] == ""
        assert main([*table, "--ask", *site, *given]) == 0
        assert len(server.seen) == paid + 1
    table_rows = rows(tmp_path)
    assert (table_rows["prompts"]["samples"], table_rows["prompts"]["semantic"]) == ("2", "7.0")
    assert float(table_rows["other"]["complexity"]) == pytest.approx(17.5 / 3)
    assert table_rows["LoCoT2V-Bench (paper)"]["words"] == "236.66"
    assert (tmp_path / "tables" / "prompt-complexity.tex").is_file()


def test_more_tries_go_on_where_no_answer_fitted(tmp_path: Path, ffmpeg: str, capsys: Capture) -> None:
    short_film(ffmpeg, tmp_path / "videos" / "v.mp4", 1.0)
    author = Author(lambda step, text, count: {"description": 5} if step == "describe" else None)
    with FaultyServer(author) as server:
        profile = tmp_path / "site.toml"
        profile.write_text(f'[model_servers]\ns = "{server.url}"\n')
        model = '{"model": "tiny", "server": "s"}'
        settings = [f"multimodal={model}", f"language={model}", "rounds=1", "least_words=8", "most_words=30"]
        given = [word for one in settings for word in ("--set", one)]
        words = ["suite", "prompts", "make", str(tmp_path / "videos"), "--out", str(tmp_path / "prompts")]
        words += ["--store", str(tmp_path / "store"), "--profile", str(profile), "--quiet", *given]
        assert main(words) == 3
        assert "--set tries=N, with N above the one before" in capsys.readouterr().out
        author.odd = None
        assert main(words) == 3
        assert author.asked["describe"] == 3
        assert main([*words, "--set", "tries=4"]) == 0
        assert author.asked["describe"] == 4
    assert "1 drafts wait for a person" in capsys.readouterr().out


def test_a_file_of_which_something_else_was_said_since_counts_apart(tmp_path: Path, capsys: Capture) -> None:
    project = Project(tmp_path)
    video = SourceVideo(prompt_id="p1", path="/videos/p1.mp4", digest="d")
    draft = Draft(video=video, versions=(Version(text="A ball."),))
    project.keep_draft(draft)
    ((file,), _) = write_edit_files(project)
    file.write_text(file.read_text().replace("verdict: open", "verdict: accepted"))
    os.utime(file, (1_000_000_000, 1_000_000_000))
    assert main(["suite", "prompts", "accept", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert "1 accepted, 0 left out" in output
    assert "replaced" not in output
    project.review("p1", draft.digest, "left_out", "")
    assert main(["suite", "prompts", "accept", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert "0 accepted, 0 left out" in output
    assert "1 files say what was replaced since" in output
    assert "p1" in output


def rows(tmp_path: Path) -> dict[str, dict[str, str]]:
    with (tmp_path / "tables" / "prompt-complexity.csv").open() as file:
        return {row["suite"]: row for row in csv.DictReader(file)}
