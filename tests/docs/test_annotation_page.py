"""The commands of docs/annotation.md run as they stand there, from the release to the filtered release."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slvmeval.cli.main import main
from storage_schemas.release import Release
from storage_schemas.store import Store
from storage_schemas.votes import Vote, VotesStore
from storage_schemas.written_pages import written_pages
from tasks.annotation.desk.desk import Desk
from tasks.annotation.installation import database_url, installation_key
from tests.docs import reading

PAGE = Path(__file__).parents[2] / "docs" / "annotation.md"
#: The page excludes a worker by these digits.
DOUBTFUL = "3f9a" + "0" * 28


@contextmanager
def opened(root: Path) -> Iterator[Desk]:
    with Desk.open(database_url(root), installation_key(root)) as desk:
        yield desk


def people_vote(root: Path) -> None:
    """Give five votes to each pair; all call one pair failed."""
    with opened(root) as desk:
        campaign = desk.campaigns.get("spring")
        tasks = desk.campaigns.tasks("spring")
        assert tasks
        votes = [
            Vote.model_validate(
                {
                    **{"campaign": "spring", "release": campaign.release, "version": campaign.version},
                    **{"pair_id": task.pair_id, "source_id": task.source_id, "aspect": task.aspect},
                    **{"first": "high", "preferred": "high", "rating": "C" if task == tasks[0] else "A"},
                    "vote_id": f"{task.pair_id[:20]}-{number}",
                    "worker": DOUBTFUL if number == 0 else f"{number:032x}",
                    **{"total_s": 60.0, "pair_duration_s": task.high_s + task.low_s},
                    "at": f"2026-03-0{number + 1}T10:00:00+00:00",
                }
            )
            for task in tasks
            for number in range(campaign.workers_per_pair)
        ]
        # the one whose data are to be deleted entered, and did nothing more
        desk.workers.enter("spring", "prolific", "5f3c9a1e")
        assert desk.votes.add("spring", votes).accepted == len(votes)


def serve_a_moment(words: list[str]) -> None:
    """Start the server with a free port, see that it answers, and end it."""
    command = [sys.executable, "-m", "slvmeval", *words, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            output = server.stdout.readline()
            result = re.search(r"listening on 127\.0\.0\.1:(\d+)", output)
            assert result is not None, (output, server.stderr.read() if server.stderr else "")
            address = f"http://127.0.0.1:{result[1]}"
            request = urllib.request.Request(f"{address}/health", headers={"Host": "annotate.example.org"})
            with urllib.request.urlopen(request, timeout=60) as answer:
                assert answer.status == 200
        finally:
            server.terminate()
            server.wait(60)


@pytest.mark.slow
def test_the_page_runs_from_monday_to_friday(
    example_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(example_folder / "store", tmp_path / "store")
    monkeypatch.chdir(tmp_path)
    (settings,) = [block.text for block in reading.blocks(PAGE, "toml") if "campaign.toml" in block.text]
    Path("campaign.toml").write_text(settings)
    lines = [line for block in reading.blocks(PAGE, "sh") for line in block.text.splitlines()]
    assert all(line.startswith("slvmeval annotate ") or line.startswith("slvmeval report ") for line in lines)
    for line in lines:
        words = shlex.split(line)[1:]
        if words[1] in ("publish", "serve"):
            # the example's film has no licence line, as the page says of such ones
            words.append("--private")
        if words[1] == "serve":
            serve_a_moment(words)
            people_vote(Path("store"))
            continue
        if words[1] == "erase":
            words.append("--yes")
        if words[1] == "simulate":
            words += ["--set", "runs=1"]
        assert main(words) == 0, (line, capsys.readouterr().err)
    output = capsys.readouterr().out
    assert "cost: " in output
    assert "all pairs have the votes they need" in output
    store = Store.open(Path("store"))
    kept, parent = Release.open(store, "main-filtered"), Release.open(store, "main")
    assert len(list(kept.pairs())) == len(list(parent.pairs())) - 1
    assert [row.worker for row in VotesStore(store).decisions(["spring"])] == [DOUBTFUL]
    with opened(Path("store")) as desk:
        assert len(desk.organiser.erased("spring")) == 1
    assert "human" in (Path("report") / "index.html").read_text(encoding="utf-8")
    assert "report" in {page.kind for page in written_pages(store)}
    assert Path("links.csv").read_text().count("https://annotate.example.org/c/spring/enter?token=") == 40
