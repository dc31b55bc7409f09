"""The report's files: pages, what they hold, what a public one leaves out."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from storage_schemas.errors import UserInputError
from storage_schemas.judgements import JudgementsStore
from storage_schemas.release import Release
from tasks.report.disagreement import disagreements
from tasks.report.judged_release import load_judged_release
from tasks.report.release_report import report_of
from tasks.report.write import NO_DISAGREEMENT, write_report
from tests.tasks.publish.conftest import EVIL, Small, without_figures
from tests.tasks.publish.judging import judged, scored, skilled
from tests.tasks.publish.pages import Elements

TALK = json.dumps({"conversation": [{"step": "look", "answer": "I cannot tell", "failure": "cut_off"}]})


@pytest.fixture(scope="module")
def judged_small(build_small: Callable[[Path], Small], tmp_path_factory: pytest.TempPathFactory) -> Release:
    small = build_small(tmp_path_factory.mktemp("judged"))
    store, pairs = JudgementsStore(small.store), small.release.pairs()
    store.add(judged("vlm", pairs, lambda *_: "high", raw=EVIL, reasoning="secret thought " * 3_000))
    store.add(judged("broken", pairs, lambda *_: None, details=TALK))
    store.add(
        scored("<b>scorer</b>", pairs, lambda record, _: "low" if record.aspect == "aesthetics" else "high")
    )
    return small.release


@pytest.fixture(scope="module")
def pages(judged_small: Release, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(
        report_of(load_judged_release(judged_small)), tmp_path_factory.mktemp("report") / "pages"
    ).parent


def test_every_link_leads_to_a_file_and_none_leaves(pages: Path) -> None:
    for page in pages.rglob("*.html"):
        result = Elements(page).found
        # the switch between light and dark
        assert [tag for tag, _ in result if tag in ("script", "iframe", "object", "form")] == ["script"]
        ids = [given["id"] for _, given in result if "id" in given]
        assert len(ids) == len(set(ids))
        for tag, given in result:
            assert not [name for name in given if name.startswith("on")], (page, tag, given)
            for name in ("href", "src", "xlink:href"):
                target = given.get(name) or ""
                if target.startswith("#"):
                    assert target[1:] in ids
                elif target and not target.startswith("data:"):
                    assert (page.parent / target.partition("#")[0]).is_file(), target


def test_texts_stay_texts(pages: Path) -> None:
    index = (pages / "index.html").read_text(encoding="utf-8")
    assert "<b>" not in index
    assert "&lt;b&gt;scorer&lt;/b&gt;" in index
    assert (pages / "figures" / "accuracy-by-duration.svg").is_file() or "one duration" in index
    shown = "".join(path.read_text(encoding="utf-8") for path in (pages / "pairs").iterdir())
    assert "<img src=x" not in shown
    assert "&lt;img src=x onerror=alert(1)&gt;" in shown
    assert "more characters" in shown, "endless thoughts are cut, and that is reported"


def test_the_pairs_that_divide_have_pages_with_frames_and_answers(judged_small: Release, pages: Path) -> None:
    result = disagreements(load_judged_release(judged_small), 10)
    assert {judged_small.pair(one.pair_id).aspect for one in result} == {"aesthetics"}
    assert [round(one.variance, 3) for one in result] == [0.25, 0.25]
    assert len(list((pages / "pairs").iterdir())) == 2
    page = (pages / "pairs" / f"{result[0].pair_id[:16]}.html").read_text(encoding="utf-8")
    for part in (
        'src="data:image/jpeg;base64,',
        "0.25 for high, 0.75 for low",
        "no answer: cut_off",
        "first: the high one",
        "second: the high one",
        # the conversation of a judgement that failed, with the model's words as they came
        "&#34;step&#34;: &#34;look&#34;",
        "I cannot tell",
    ):
        assert part in page


def test_public_report_hides_what_must_stay(judged_small: Release, pages: Path, tmp_path: Path) -> None:
    index = write_report(report_of(load_judged_release(judged_small)), tmp_path, private=False)
    texts = {path: path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.html")}
    (hidden,) = (text for text in texts.values() if "does not allow redistributing its frames" in text)
    assert "Private page" not in "".join(texts.values())
    for told in ("data:image/jpeg", "Caption 3", "secret thought", "Answer as it came", "Details"):
        assert told not in hidden
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or b"secret two" not in path.read_bytes(), path
    free = next(text for path, text in texts.items() if text != hidden and path != index)
    assert "data:image/jpeg" in free
    assert "secret thought" in free
    assert "Private pages." in (pages / "index.html").read_text(encoding="utf-8")


@pytest.mark.usefixtures("no_figures")
def test_page_reports_frames_that_are_gone(build_small: Callable[[Path], Small], tmp_path: Path) -> None:
    small = build_small(tmp_path)
    pairs = small.release.pairs(aspect="aesthetics")
    JudgementsStore(small.store).add(
        [*scored("a", pairs, lambda *_: "high"), *scored("b", pairs, lambda *_: "low")]
    )
    shutil.rmtree(small.store.root / "artifacts" / "frames")
    write_report(report_of(load_judged_release(small.release)), tmp_path / "pages")
    for page in (tmp_path / "pages" / "pairs").iterdir():
        assert "There are no frames" in page.read_text(encoding="utf-8")


def test_report_files_are_the_same_again(judged_small: Release, pages: Path, tmp_path: Path) -> None:
    target, other = tmp_path / "pages", tmp_path / "other"
    write_report(report_of(load_judged_release(judged_small)), target)
    for path in sorted(pages.rglob("*")):
        if path.is_file():
            assert path.read_bytes() == (target / path.relative_to(pages)).read_bytes(), path
    with without_figures():
        report = report_of(load_judged_release(judged_small, ["vlm"]))
    write_report(report, target)
    assert not (target / "pairs").exists()
    index = (target / "index.html").read_text(encoding="utf-8")
    assert 'id="disagreement"' not in index
    assert NO_DISAGREEMENT in index
    other.mkdir()
    (other / "thesis.txt").write_text("mine")
    with pytest.raises(UserInputError, match="has other content"):
        write_report(report, other)
    assert [path.name for path in other.iterdir()] == ["thesis.txt"]


def test_every_table_is_there_three_times(pages: Path) -> None:
    names = {path.stem for path in (pages / "tables").glob("*.csv")}
    ours = "accuracy order-bias comparisons duration-correlation severity-clips power cost"
    assert set(ours.split()) <= names
    for name in names:
        assert (pages / "tables" / f"{name}.md").read_text(encoding="utf-8").strip()
        assert (pages / "tables" / f"{name}.tex").is_file()
        with (pages / "tables" / f"{name}.csv").open(encoding="utf-8", newline="") as lines:
            assert len({len(line) for line in csv.reader(lines)}) == 1
    document = (pages / "tables" / "all.tex").read_text(encoding="utf-8")
    wanted = set(re.findall(r"\\input\{([\w-]+)\}", document))
    assert wanted == {path.stem for path in (pages / "tables").glob("*.tex")} - {"all"}


def test_the_page_begins_with_a_figure_and_ends_with_what_has_no_data(pages: Path) -> None:
    index = (pages / "index.html").read_text(encoding="utf-8")
    figure, table = index.index("<svg"), index.index("<table")
    assert index.index('id="accuracy"') < figure < table
    (label,) = re.findall(r'aria-label="(Accuracy[^"]*chance is 50[^"]*)"', index)
    assert "vlm 100.0" in label
    assert "&lt;b>scorer&lt;/b> 75.0" in label
    assert "All numbers are in the table below." in label
    (line,) = re.findall(r"<p class=\"missing\">No data for: (.*)\.</p>", index)
    missing = line.split("; ")
    assert "repeats (ask with --repeats 3)" in missing
    assert "people and their filter (needs votes: slvmeval annotate)" in missing
    assert "requests and cost" not in missing
    for section in ("repeats", "filter", "probes", "severity", "where", "juries"):
        assert f'id="{section}"' not in index
        assert f'"#{section}"' not in index
    assert index.rindex("<section") < index.index('class="missing"')
    # the files of an empty table are there all the same
    assert "no votes yet" in (pages / "tables" / "retention.md").read_text(encoding="utf-8")


def test_counts_are_whole_and_durations_are_read_from_a_clock(judged_small: Release, pages: Path) -> None:
    with without_figures():
        report = report_of(load_judged_release(judged_small))
    for table in report.tables.values():
        for column in table.shown:
            if column.kind == "count":
                assert not [row for row in table.rows if column.text(row.get(column.key)).endswith(".0")]
    index = (pages / "index.html").read_text(encoding="utf-8")
    assert "longest 4:00, mean duration " in index
    assert not re.search(r"\d\.\d s\b|\.0 chars", index)


def costs(pages: Path) -> dict[str, dict[str, Any]]:
    with (pages / "tables" / "cost.csv").open(encoding="utf-8", newline="") as lines:
        return {line["evaluator"]: line for line in csv.DictReader(lines)}


@pytest.mark.usefixtures("no_figures")
def test_cost_table_has_what_it_took(judged_small: Release, pages: Path, tmp_path: Path) -> None:
    result = costs(pages)
    assert result["vlm"]["requests"] == "16"
    assert float(result["vlm"]["usd"]) == pytest.approx(16 * 0.0117)
    assert result["broken"]["failures"] == "cut_off 16"
    assert result["<b>scorer</b>"]["tokens_in"] == "0"
    # a price that is not known is not nothing
    rows = list(judged("new", judged_small.pairs(), skilled("new", 0.9), cost_usd=None))
    write_report(report_of(load_judged_release(judged_small, judgements=rows)), tmp_path / "pages")
    assert costs(tmp_path / "pages")["new"]["usd"] == ""
