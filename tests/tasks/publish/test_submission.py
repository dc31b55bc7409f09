"""Submissions: what is made is in order, and what is not is refused with its reason."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from storage_schemas.errors import UserInputError
from storage_schemas.judgements import PROBE_KEY, Judgement
from storage_schemas.release import Release
from tasks.publish.leaderboard import write_leaderboard
from tasks.publish.submission import (
    MAX_BYTES,
    Card,
    Submission,
    UsedPrices,
    check_submission,
    make_submission,
    read_card,
    submission_bytes,
)
from tests.tasks.publish.judging import build_wide, judged, scored, skilled

CARD = Card(name="A judge", authors=("A. Person",), url="https://example.org/judge", model="model-1")
PRICES = UsedPrices(as_of="2026-11-01", source="https://example.org/prices")


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return build_wide(tmp_path_factory.mktemp("wide"), 6)


def written(release: Release, path: Path, kind: Any = judged, card: Card = CARD, **more: Any) -> Path:
    rows = list(kind("judge", release.pairs(), skilled("judge", 0.9, 0.1, 0.1), **more))
    path.write_bytes(submission_bytes(make_submission(release, rows, card, PRICES)))
    return path


@pytest.mark.parametrize(("kind", "orders"), [(judged, "both"), (scored, "apart")])
def test_submission_made_is_in_order(release: Release, tmp_path: Path, kind: Any, orders: str) -> None:
    path = written(release, tmp_path / "one.json", kind)
    result = check_submission(path, release)
    assert result.submission.orders == orders
    assert submission_bytes(result.submission) == path.read_bytes()
    given, original = (
        [(row.pair_id, row.order, row.preferred, row.failure) for row in rows]
        for rows in (result.rows, kind("judge", release.pairs(), skilled("judge", 0.9, 0.1, 0.1)))
    )
    assert sorted(given, key=str) == sorted(original, key=str)
    assert result.submission.release.checksum == release.manifest.content_checksum
    assert "answer first" not in path.read_text(encoding="utf-8"), "texts of the judge stay at home"


def test_repeats_and_one_order(release: Release, tmp_path: Path) -> None:
    rows = list(judged("judge", release.pairs(), skilled("judge", 0.9)))
    again = list(judged("judge", release.pairs(), skilled("again", 0.9), repeat=1))
    path = tmp_path / "file.json"

    def checked(rows: list[Judgement]) -> Submission:
        path.write_bytes(submission_bytes(make_submission(release, rows, CARD, PRICES)))
        return check_submission(path, release).submission

    assert checked([*rows, *again]).repeats == 2
    assert checked([row for row in rows if row.order == "low_first"]).orders == "one"


Change = Callable[[dict[str, Any]], None]


def changed(path: Path, change: Change) -> Path:
    value = json.loads(path.read_text(encoding="utf-8"))
    change(value)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def answer(value: dict[str, Any], failed: bool = False) -> dict[str, Any]:
    result: dict[str, Any] = next(one for one in value["answers"] if ("failure" in one) == failed)
    return result


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda v: v["answers"].pop(), r"repeat 0: \w+_first in place of high_first and low_first"),
        (lambda v: v["answers"].append(v["answers"][0]), "each once"),
        (lambda v: answer(v).update(pair_id="f" * 64), "pair f{64} is not in the release"),
        (lambda v: answer(v).update(order={"low_first": "high_first"}.get(answer(v)["order"], "low_first")),
         "each once"),
        (lambda v: answer(v).update(order="apart", choice=None), "in place of"),
        (lambda v: answer(v).update(preferred="low" if answer(v)["preferred"] == "high" else "high"),
         "contradicts preferring"),
        (lambda v: answer(v).update(failure="cut_off"), "needs either an answer or a failure"),
        (lambda v: answer(v, failed=True).pop("failure"), "needs either an answer or a failure"),
        (lambda v: answer(v).update(score_high=0.5), "one of two scores is missing"),
        (lambda v: answer(v).update(tokens_in=-1), "must be at least 0"),
        (lambda v: answer(v).update(repeat=1), "more repeats than the stated 1"),
        (lambda v: answer(v).update(raw="a text"), "unknown key"),
        (lambda v: v["accuracies"]["dynamics_degree"].update(accuracy=1.0), "it states 100.00 %, n"),
        (lambda v: v["accuracies"]["dynamics_degree"].update(failed=0), "and its answers give"),
        (lambda v: v["accuracies"].pop("dynamics_degree"), "dynamics_degree: it has answers"),
        (lambda v: v["accuracies"].update(colour={"accuracy": 1, "n": 1, "failed": 0}), "not a judged"),
        (lambda v: v["release"].update(checksum="0" * 64), "it is about release wide, version 1 .0{12}"),
        (lambda v: v["card"].update(url="javascript:alert(1)"), "begins with https"),
        (lambda v: v["card"].update(name="x" * 101), "at most 100 characters"),
        (lambda v: v["card"].update(name="a\u202eb"), "invisible character"),
        (lambda v: v.update(evaluator="judge+blind"), "judge.blind is a probe"),
        (lambda v: v["card"].update(authors=[]), "authors: must not be empty"),
        (lambda v: v.update(format="else"), "slvmeval-submission"),
        (lambda v: v.update(format_version=2), "must be 1"),
        (lambda v: v.pop("card"), "card: is missing"),
    ],
)  # fmt: skip
def test_submission_with_a_mistake(release: Release, tmp_path: Path, change: Change, said: str) -> None:
    path = changed(written(release, tmp_path / "one.json"), change)
    with pytest.raises(UserInputError, match=said):
        check_submission(path, release)


@pytest.mark.parametrize(
    "change", [{"evaluator": "judge+equal"}, {"details": json.dumps({PROBE_KEY: "blind"})}]
)
def test_the_answers_of_a_probe_are_not_submitted(release: Release, change: dict[str, Any]) -> None:
    rows = [row.model_copy(update=change) for row in judged("judge", release.pairs(), skilled("judge", 0.9))]
    with pytest.raises(UserInputError, match=r"is a probe, .* submit the judge"):
        make_submission(release, rows, CARD, PRICES)


def test_scores_have_to_go_with_the_preference(release: Release, tmp_path: Path) -> None:
    path = written(release, tmp_path / "one.json", scored)
    changed(path, lambda v: answer(v).update(score_high=0.1, score_low=0.2, preferred="high"))
    with pytest.raises(UserInputError, match=r"scores of 0.1 and 0.2 contradict preferring high"):
        check_submission(path, release)
    changed(path, lambda v: v.update(answers=[]))
    with pytest.raises(UserInputError, match="and 7 more"):
        check_submission(path, release)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        *((content, "is not JSON") for content in (b"", b"PK\x03\x04", b"\xff\xfe{}", b"[" * 100_000)),
        (b'{"card": NaN}', "NaN is not a number"),
        (b'{"card": 1, "card": 2}', "'card' appears twice"),
        (b'{"answers": ' + b"9" * 5000 + b"}", "is not JSON"),
        (b"[]", "is invalid"),
        (b"null", "is invalid"),
        # a file without end is not read
        (MAX_BYTES + 1, "the maximum for a submission"),
        (None, r"odd.json cannot be read: No such file"),
    ],
    ids=range(11),
)
def test_a_file_that_is_none(
    release: Release, tmp_path: Path, content: bytes | int | None, said: str
) -> None:
    path = tmp_path / "odd.json"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        with path.open("wb") as file:
            file.truncate(content)
    with pytest.raises(UserInputError, match=said) as told:
        check_submission(path, release)
    assert len(str(told.value)) < 2_000


def test_answers_of_two_judges_are_not_submission(release: Release) -> None:
    rows = [row for name in ("one", "two") for row in judged(name, release.pairs(), skilled(name, 0.9))]
    with pytest.raises(UserInputError, match=r"answers of one evaluator .* here are one .*, two"):
        make_submission(release, rows, CARD, PRICES)
    with pytest.raises(UserInputError, match="here are none"):
        make_submission(release, [], CARD, PRICES)


def test_a_card(tmp_path: Path) -> None:
    path = tmp_path / "card.toml"
    path.write_text(f"name = 'A judge'\nauthors = ['A. Person']\nurl = '{CARD.url}'\nmodel = 'model-1'\n")
    assert read_card(path) == CARD
    for text, output in (
        ("name = ", "is not TOML"),
        ('name = "x"', "authors: is missing"),
        ('name = "x"\nauthors = ["a"]\nmail = "x"', "mail: unknown key"),
    ):
        path.write_text(text)
        with pytest.raises(UserInputError, match=output):
            read_card(path)
    with pytest.raises(UserInputError, match="cannot be read"):
        read_card(tmp_path / "none.toml")


def board(release: Release, folder: Path, **refused: str) -> str:
    evil = Card(name="<script>alert(1)</script>", authors=("=cmd|'x'",), url='https://x.org/"><b>')
    checked = []
    for place, (card, skill, fails) in enumerate(((CARD, 0.95, 0.0), (evil, 0.6, 0.0), (CARD, 1.0, 0.6))):
        rows = list(judged(f"judge-{place}", release.pairs(), skilled(f"judge-{place}", skill, 0.0, fails)))
        path = folder / f"{place}.json"
        path.write_bytes(submission_bytes(make_submission(release, rows, card, PRICES)))
        checked.append(check_submission(path, release))
    page = write_leaderboard(release, checked, folder / "board", refused=refused)
    return page.read_text(encoding="utf-8")


def test_a_leaderboard(release: Release, tmp_path: Path) -> None:
    page = board(release, tmp_path, **{"bad.json": "pair <x> is not in the release"})
    assert page.count("<script>") == 2, "the frame's and its own"
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert 'href="https://x.org/&#34;&gt;&lt;b&gt;"' in page
    assert "pair &lt;x&gt; is not in the release" in page
    assert page.index("A judge") < page.index("&lt;script&gt;alert")
    for link in re.findall(r'href="(submissions/[^"]+)"', page):
        check_submission(tmp_path / "board" / link, release)
    assert len(list((tmp_path / "board" / "submissions").iterdir())) == 3
    table = (tmp_path / "board" / "leaderboard.csv").read_text(encoding="utf-8").splitlines()
    assert len(table) == 1 + 3 * 2
    assert table[0].startswith("judge,settings,aspect,accuracy,clustered_low")
    # who answers only what is easy is not the best
    last = page[page.rindex("<tr><td") :]
    assert 'data-label="Mean of aspects" data-value=""' in last
    assert 'data-value="" data-label="Rank"' in last
    # six sources are too few for a best
    assert 'class="best"' not in page
    assert "The judged pairs are of 6 sources," in page


def one_board(release: Release, folder: Path, judges: dict[str, Iterator[Judgement]]) -> list[str]:
    """Return the rows of a board of submissions, without their tags' links."""
    checked = []
    for name, rows in judges.items():
        path = folder / f"{name}.json"
        card = CARD.model_copy(update={"name": name})
        path.write_bytes(submission_bytes(make_submission(release, list(rows), card, PRICES)))
        checked.append(check_submission(path, release))
    page = write_leaderboard(release, checked, folder / "board").read_text(encoding="utf-8")
    return page.split("<tr><td")[1:]


def test_first_in_one_order_and_silence_in_the_other_has_no_rank(tmp_path: Path) -> None:
    release = build_wide(tmp_path / "release", 10)
    pairs = release.pairs()
    rows = one_board(
        release,
        tmp_path,
        {
            "sly": judged("sly", pairs, lambda _, order: "high" if order == "high_first" else None),
            "honest": judged("honest", pairs, lambda *_: "high"),
            "equal": judged("equal", pairs, lambda *_: "high"),
            "none": judged("none", pairs, lambda *_: "low"),
        },
    )
    names = [re.findall(r'scope="row" data-value="(\w+)"', row)[0] for row in rows]
    ranks = [re.findall(r'data-value="(\d*)" data-label="Rank"', row)[0] for row in rows]
    # equal means share a rank, and neither is the best
    assert dict(zip(names, ranks, strict=True)) == {"equal": "1", "honest": "1", "none": "3", "sly": ""}
    assert names[-1] == "sly"
    assert "bounds 50.0–100.0" in rows[-1]
    assert 'class="best"' not in "".join(rows)


def test_the_clearly_best_of_a_board_is_marked(tmp_path: Path) -> None:
    release = build_wide(tmp_path / "release", 10)
    rows = one_board(
        release,
        tmp_path,
        {
            "good": judged("good", release.pairs(), lambda *_: "high"),
            "bad": judged("bad", release.pairs(), lambda *_: "low"),
        },
    )
    assert (rows[0].count('class="best"'), rows[1].count('class="best"')) == (3, 0)
