"""Printed tables of Video-Bench and LoCoT2V-Bench: held against the papers' texts, and against our tables."""

from __future__ import annotations

import re

import pytest

from tasks.extras.locot2v.dimensions import DIMENSIONS as OF_LOCOT2V
from tasks.extras.video_bench.dimensions import DIMENSIONS as OF_VIDEO_BENCH
from tasks.extras.video_bench.variants import VARIANTS
from tasks.report.suite_published import SuitePublished, read_suite_published
from tests.papers.at_hand import paper_text, printed_numbers

PACKAGES = {"Video-Bench": "tasks.extras.video_bench", "LoCoT2V-Bench": "tasks.extras.locot2v"}


def published(name: str) -> SuitePublished:
    return read_suite_published("paper", PACKAGES[name])


def block(text: str, table: str) -> list[str]:
    """Return the lines of a printed table."""
    start = text.index(f"Table {table}.")
    return text[start : start + 3000].splitlines()


#: What the paper calls our rows.
NAMES = {
    "musiq": "MUSIQ", "amt": "Amt", "viclip": "ViCLIP", "umt": "UMT", "grit": "GRiT", "tag2text": "Tag2Text",
    "compbench": "CompBench", "people": "HU - HU", "single-request": "HU - GPT",
    "gemini-1.5-pro": "Gemini1.5pro",
    "qwen2-vl-72b": "Qwen2vl-72b", "gpt-4o-2024-05-13": "GPT-4o-0513", "gpt-4o-2024-11-20": "GPT-4o-1120",
    "CogVideoX": "Cogvideox", "simple | suite": "Simple prompt", "complex | suite": "Complex prompt",
    "3-shot": "3", "5-shot": "5",
}  # fmt: skip
OF_SUITE = {"2": "Ours", "3": "HU - HA", "5": "GPT-4o-0806", "7": "7"}


@pytest.mark.parametrize("table", ["1", "2", "3", "5", "6", "7", "8"])
def test_video_bench_s_tables_are_as_printed(table: str) -> None:
    lines = block(paper_text("Video-Bench"), table)
    for held in published("Video-Bench").tables:
        if held.table != table or held.gives == "alignment":
            continue
        for row, cells in held.rows.items():
            name = NAMES.get(row, row)
            if row == "suite":
                name = OF_SUITE[table]
            if row == "without-few-shot":
                name = "1"
            if row == "baselines":
                continue
            line = next(one for one in lines if re.match(rf"{re.escape(name)}( \[|\t)", one))
            assert printed_numbers(line) == [cell for cell in cells if cell], (table, row)


def test_what_stands_in_rows_of_other_names_is_as_printed() -> None:
    text = paper_text("Video-Bench")
    by_table = {(one.table, one.gives): one for one in published("Video-Bench").tables}
    lines = block(text, "2")
    for column, name in enumerate(("LAION", "CLIP", "RAFT"), 1):
        line = next(one for one in lines if one.startswith(f"{name} ["))
        assert printed_numbers(line) == [by_table["2", "ablations"].rows["baselines"][column]]
    ours = by_table["2", "ablations"].rows["suite"]
    assert [cells[0] for cells in by_table["2", "alignment"].rows.values()] == list(ours)
    # table 4 has its two halves side by side, without names of rows
    lines = [line for line in block(text, "4") if "0.639" in line or "0.733" in line]
    plain, with_both = (printed_numbers(f"\t{line}") for line in lines[:2])
    for (table, name), place in {
        ("4 (a)", "without-few-shot"): plain[:5],
        ("4 (b)", "without-chain-of-query"): plain[5:10],
        ("4 (a)", "suite"): with_both[:5],
        ("4 (b)", "suite"): with_both[5:10],
    }.items():
        assert list(by_table[table, "ablations"].rows[name]) == place
    lines = block(text, "9")
    means = printed_numbers(next(line for line in lines if line.startswith("Mean Difference")))
    ends = printed_numbers(next(line for line in lines if line.startswith("99%")).replace("[", " "))
    rows = list(by_table["9", "alignment"].rows.values())
    assert [row[0] for row in rows] == means
    assert [end for row in rows for end in row[1:]] == ends
    assert "across dimensions between our proposed approach and human evaluations is 0.18" in text
    # the mean of table 9 is the text's
    assert round(sum(abs(float(one)) for one in means) / len(means), 2) == 0.18
    assert "score of 0.67" in text
    assert "achieves 0.867" in text


def test_locot2v_bench_s_values_are_in_the_summary() -> None:
    text = paper_text("LoCoT2V-Bench")
    for held in published("LoCoT2V-Bench").tables:
        for row, cells in held.rows.items():
            for cell in filter(None, cells):
                for number in cell.split(" to "):
                    assert number in text, (held.table, row)
    # averages stand behind the model's name
    averages = text[text.index("Overall averages") :].splitlines()[0]
    for row, cells in published("LoCoT2V-Bench").tables[0].rows.items():
        assert f"{row} {cells[-1]}" in averages


def test_rows_and_columns_are_those_of_our_tables() -> None:
    for name, dimensions in (("Video-Bench", OF_VIDEO_BENCH), ("LoCoT2V-Bench", OF_LOCOT2V)):
        known = {one.name for one in dimensions}
        groups = {one.group for one in dimensions}
        known |= {f"{group}{end}" for group in groups for end in (" mean", " rank", " mean rank")}
        known |= {"mean", "rank", "mean rank", "pearson", "spearman", "kendall", "total_agreement"}
        known |= {"repeat_alpha", "difference", "difference_low", "difference_high"}
        for table in published(name).tables:
            assert set(table.columns) <= known
            if table.gives == "correlations-groups":
                assert {part for row in table.rows for part in row.split(" | ")} <= groups
    missing = {
        row
        for table in published("Video-Bench").tables
        if table.gives == "ablations"
        for row in table.rows
        if row not in {*VARIANTS, "suite"}
    }
    # metrics and models that this project does not have
    assert missing == {
        "musiq", "amt", "viclip", "umt", "grit", "tag2text", "compbench", "gemini-1.5-pro", "qwen2-vl-72b",
    }  # fmt: skip
