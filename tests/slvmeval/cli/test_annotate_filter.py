"""The commands on the filter and on workers, on a release that a real build made."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slvmeval.cli.main import main
from storage_schemas.release import Release
from storage_schemas.store import Store
from storage_schemas.votes import Standing, VotesStore
from tasks.annotation.campaign import Campaign
from tasks.annotation.desk.desk import Desk
from tasks.annotation.installation import database_url, installation_key
from tests.tasks.votes.voting import vote, votes_on

#: Ratings of the six pairs, in the release's order.
RATINGS = ("AAAAA", "AAABB", "AAAAC", "ABBBB", "AAAAB", "AAA")


@pytest.fixture
def release(judged_store: Path) -> Release:
    newest = Release.open(Store.open(judged_store))
    assert len(newest.pairs()) == len(RATINGS)
    return newest


@pytest.fixture
def voted(release: Release) -> Release:
    files = VotesStore(release.store)
    for record, letters in zip(release.pairs(), RATINGS, strict=True):
        more = {"source_id": record.source_id, "aspect": record.aspect, "release": release.name}
        files.add(votes_on(record.pair_id, letters, **more))
    return release


@pytest.fixture
def run(judged_store: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def run(*words: str) -> tuple[int, str, str]:
        code = main([*words, "--store", str(judged_store)])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


Run = Callable[..., tuple[int, str, str]]


def test_from_votes_to_a_filtered_release(voted: Release, run: Run, tmp_path: Path) -> None:
    name = voted.name
    code, out, err = run("annotate", "filter", name)
    assert (code, err) == (3, ""), "one pair is undecided"
    assert f"release {name}-filtered, version 1: 3 of 6 pairs, written" in out
    code, out, _ = run("annotate", "filter", name)
    assert code == 3
    assert "version 1: 3 of 6 pairs, unchanged since it was written" in out
    code, out, _ = run("verify", f"{name}-filtered", "--deep", "--quiet")
    assert code == 0
    assert "3 pairs read frame by frame, all good" in out
    code, out, _ = run("status", "--json")
    assert [one["name"] for one in json.loads(out)["releases"]] == [name, f"{name}-filtered"]
    code, out, _ = run("pairs", "list", f"{name}-filtered", "--json")
    assert code == 0
    assert len(json.loads(out)) == 3


def test_the_rest_of_the_votes_makes_the_next_version(voted: Release, run: Run) -> None:
    run("annotate", "filter", voted.name)
    last = voted.pairs()[-1]
    more = {"source_id": last.source_id, "aspect": last.aspect}
    VotesStore(voted.store).add([vote(last.pair_id, name, **more) for name in ("late-1", "late-2")])
    code, out, _ = run("annotate", "filter", voted.name, "--json")
    values = json.loads(out)
    assert (code, values["version"], values["new"]) == (0, 2, True)
    assert values["retention"][-1] == {
        "aspect": "all",
        "initial": 6,
        "excluded_c": 1,
        "excluded_a": 1,
        "excluded_unclear": 0,
        "undecided": 0,
        "final": 4,
        "rate": 4 / 6,
    }


def test_a_build_goes_on_with_the_unfiltered_release(voted: Release, run: Run, judged_store: Path) -> None:
    assert run("annotate", "filter", voted.name)[0] == 3
    videos = judged_store.parent / "videos"
    videos.mkdir()
    (videos / "new.mp4").write_bytes(b"no video at all")
    recipe = judged_store.parent / "recipe.json"
    recipe.write_text(json.dumps(voted.recipe))
    build = ("build", "--sources", f"folder:{videos}", "--recipe", str(recipe), "--direct", "--quiet")
    code, _, err = run(*build, "--release", f"{voted.name}-filtered")
    assert code == 1
    assert f"was filtered from {voted.name}: build {voted.name}, and filter it again" in err
    # the old sources are gone: all their pairs remain, including those that people excluded
    assert run(*build, "--release", voted.name)[0] == 3
    after = Release.open(voted.store, voted.name)
    assert (after.version, after.info["extends"]) == (voted.version + 1, voted.version)
    assert after.pairs() == voted.pairs()
    code, out, _ = run("annotate", "filter", voted.name, "--json")
    assert json.loads(out)["retention"][-1]["final"] == 3


def test_retention_writes_nothing(voted: Release, run: Run) -> None:
    code, out, _ = run("annotate", "retention", voted.name, "--json")
    rows = {row["aspect"]: row for row in json.loads(out)}
    assert code == 0
    assert rows["all"]["final"] == 3
    assert rows["all"]["undecided"] == 1
    code, out, _ = run("annotate", "retention", voted.name)
    assert "excluded by C" in out
    assert "60.0" in out
    assert run("annotate", "retention", "--campaign", "spring")[0] == 0
    assert [path.name for path in (voted.store.root / "releases").iterdir()] == [voted.name]


def test_another_rule_can_be_tried(voted: Release, run: Run, tmp_path: Path) -> None:
    recipe = tmp_path / "lenient.toml"
    recipe.write_text(
        'base = "cpu-approx"\nname = "lenient"\n[annotation]\nmost_c = 1\nworkers_per_pair = 3\n'
    )
    code, out, _ = run("annotate", "filter", voted.name, "--recipe", str(recipe), "--as", "lenient", "--json")
    values = json.loads(out)
    assert (code, values["release"], values["retention"][-1]["final"]) == (0, "lenient", 5)
    assert values["rule"]["most_c"] == 1


def test_the_report_has_people_in_it(voted: Release, run: Run, tmp_path: Path) -> None:
    out = tmp_path / "report"
    assert run("report", voted.name, "--out", str(out), "--quiet", "--pair-pages", "0")[0] == 0
    accuracy = (out / "tables" / "accuracy.csv").read_text(encoding="utf-8")
    assert ",human," in accuracy
    retention = (out / "tables" / "retention.csv").read_text(encoding="utf-8")
    assert "all,6,1,1,1,3,0.6" in retention
    assert (out / "tables" / "agreement.csv").read_text(encoding="utf-8").count("\n") > 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("filter",), "there are no votes on release"),
        (("retention", "--campaign", "autumn"), "there are no votes of campaign 'autumn'"),
        (("quality", "autumn"), "there are no votes of campaign 'autumn'"),
        (("exclude", "autumn", "ann", "--note", "why"), "there is no campaign 'autumn'"),
        (("clear", "autumn", "ann", "--note", " "), "give the reason with --note"),
    ],
)
def test_what_cannot_be_is_said(release: Release, run: Run, words: tuple[str, ...], message: str) -> None:
    code, out, err = run("annotate", *words)
    assert (code, out) == (1, "")
    assert message in err


def bad_votes() -> list[Any]:
    """Twelve pairs of five workers, the last of whom disagrees with all others and is wrong."""
    votes = []
    for number in range(12):
        votes += [vote(f"film/{number}", f"{n}{n}good", "A") for n in range(4)]
        votes.append(vote(f"film/{number}", "99bad", "C", "low"))
    return votes


def test_who_is_to_be_looked_at_and_what_was_decided(release: Release, run: Run) -> None:
    files = VotesStore(release.store)
    files.add(bad_votes())
    code, out, _ = run("annotate", "quality", "spring")
    assert code == 0
    assert "1 of 5 workers" in out
    assert "99bad" in out
    assert "disagrees, inaccurate" in out
    assert "to review" in out
    assert "00good" not in out
    code, out, _ = run("annotate", "quality", "--json")
    values = json.loads(out)
    first = values["workers"][0]
    assert first["worker"] == "99bad"
    assert len(values["workers"]) == 5
    assert first["alpha"] < 0
    assert first["accuracy"] == 0.0
    assert values["rule"]["low_accuracy"] == 0.2
    code, out, _ = run("annotate", "exclude", "spring", "99", "--note", "C everywhere", "--by", "Dr. Kim")
    assert code == 0
    assert "worker 99bad is excluded, decided by Dr. Kim: C everywhere" in out
    (row,) = files.decisions()
    assert (row.worker, row.decision, row.note, row.by) == (
        "99bad",
        Standing.EXCLUDED,
        "C everywhere",
        "Dr. Kim",
    )
    code, out, _ = run("annotate", "quality")
    assert "excluded" in out
    assert "0 to review" in out
    code, out, _ = run("annotate", "clear", "spring", "99bad", "--note", "a mistake of ours")
    assert code == 0
    assert [row.decision for row in files.decisions()] == [Standing.EXCLUDED, Standing.CLEARED]
    code, _, err = run("annotate", "exclude", "spring", "", "--note", "x")
    assert code == 1
    assert "0 of 5 workers" in err


def test_thresholds_can_be_others(release: Release, run: Run, tmp_path: Path) -> None:
    VotesStore(release.store).add(bad_votes())
    rule = tmp_path / "rule.toml"
    rule.write_text("flags_for_review = 3\nlow_least_votes = 20\n")
    code, out, _ = run("annotate", "quality", "--rule", str(rule), "--all")
    assert code == 0
    assert "0 to review" in out
    assert "5 of 5 workers" in out
    assert "inaccurate" not in out
    for text, message in (
        ("a =", "is not valid TOML"),
        ("fast_sharee = 1", "fast_sharee"),
        ("fast_share = 2", "fast_share"),
    ):
        rule.write_text(text)
        code, _, err = run("annotate", "quality", "--rule", str(rule))
        assert code == 1
        assert message in err
    code, _, err = run("annotate", "quality", "--rule", str(tmp_path / "none.toml"))
    assert code == 1
    assert "cannot be read" in err


def test_the_desk_hears_of_a_decision_at_once(release: Release, run: Run) -> None:
    root = release.store.root
    with Desk.open(database_url(root), installation_key(root)) as desk:
        desk.organiser.publish(Campaign(name="spring", release=release.name, version=release.version), [])
        worker = desk.workers.enter("spring", "prolific", "somebody").worker
    code, out, _ = run("annotate", "exclude", "spring", worker[:10], "--note", "asked to stop")
    assert code == 0
    assert worker in out
    with Desk.open(database_url(root), installation_key(root)) as desk:
        (row,) = desk.decisions.read("spring")
    assert row.decision is Standing.EXCLUDED
    # collecting later gives the same row
    assert VotesStore(release.store).decisions() == [row]
