"""A release as a task of other harnesses, and their logs as submissions."""

from __future__ import annotations

import importlib.util
import json
import math
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from slvmeval.cli.main import main
from storage_schemas.errors import UserInputError
from storage_schemas.release import Release
from tasks.publish.foreign_answers import _eval_parts as eval_parts
from tasks.publish.foreign_answers import judgements_from
from tasks.publish.harness import HARNESSES, Harness, write_for_harness
from tasks.publish.submission import Card, UsedPrices, check_submission, make_submission, submission_bytes
from tests.tasks.publish.conftest import Small

LOGS = Path(__file__).parent / "logs"
CARD = Card(name="A judge", authors=("A. Person",))


def rows_in(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "samples.jsonl").read_text("utf-8").splitlines()]


def module(path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "answers", raising=False)
    spec = importlib.util.spec_from_file_location(f"exported_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.parametrize("harness", HARNESSES)
def test_folder_has_both_orders_and_no_answer(small: Small, tmp_path: Path, harness: Harness) -> None:
    made = write_for_harness(small.release, tmp_path / "task", harness, frames=6)
    assert (made.pairs, made.rows, made.left_out) == (4, 8, ("secret two",))
    rows = rows_in(made.path)
    assert rows == sorted(rows, key=lambda row: row["id"])
    targets: dict[str, list[str]] = {}
    shown: dict[str, list[list[str]]] = {}
    for row in rows:
        targets.setdefault(row["pair"], []).append(row.pop("target"))
        shown.setdefault(row["pair"], []).append([one["image"] for one in row["parts"] if "image" in one])
        row["system"], row["parts"] = "", [{**part, "text": ""} for part in row["parts"]]
        assert not re.search(r"high|\blow|gold|film", json.dumps(row))
    assert all(sorted(some) == ["first", "second"] for some in targets.values())
    assert all(sorted(one) == sorted(other) and one != other for one, other in shown.values())
    pictures = [picture for one, _ in shown.values() for picture in one]
    assert len(set(pictures)) == len(pictures), "a picture of two pairs would be of the better video"
    before = {path: path.stat().st_mtime_ns for path in made.path.rglob("*.jpg")}
    assert {str(path.relative_to(made.path)) for path in before} == set(pictures)
    write_for_harness(small.release, made.path, harness, frames=6)
    assert before == {path: path.stat().st_mtime_ns for path in made.path.rglob("*.jpg")}
    assert "8 rows: 4 pairs" in (made.path / "README.md").read_text("utf-8")


def test_the_python_of_a_folder(small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_for_harness(small.release, tmp_path / "task", "lmms-eval", frames=6).path
    utils = module(folder / "utils.py", monkeypatch)
    rows = rows_in(folder)
    row = rows[0]
    assert len(utils.doc_to_visual(row)) == 2 + sum("image" in part for part in row["parts"])
    system, user = utils.doc_to_messages(row)
    assert system["role"] == "system"
    assert [part["type"] for part in user["content"][:3]] == ["text", "text", "image"]
    assert "The first video" not in utils.doc_to_text(row)
    right = [utils.process_results(one, [json.dumps({"better": one["target"]})]) for one in rows]
    assert utils.mean_of_aspects([one["mean_of_aspects"] for one in right]) == 1
    first = [utils.process_results(one, ["first"])["mean_of_aspects"] for one in rows]
    assert utils.mean_of_aspects(first) == 0.5
    # silence where the answer would be wrong does not help
    sly = [utils.process_results(one, [one["target"] if one["target"] == "first" else ""]) for one in rows]
    assert math.isnan(utils.mean_of_aspects([one["mean_of_aspects"] for one in sly]))
    yaml = (folder / "slvmeval.yaml").read_text("utf-8")
    assert all(f"metric: {one['aspect']}\n" in yaml for one in rows)


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ('{"better": "first"}', "first"),
        ('The first is blurred. {"better": "second"}', "second"),
        ("second", "second"),
        ("first or second", ""),
        ('{"better": "first"} {"better": "second"}', ""),
        ('{"better": "both"}', ""),
        ("", ""),
    ],
)
def test_the_choice_in_a_text(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, choice: str
) -> None:
    source = Path(write_for_harness.__code__.co_filename).parent / "harness_files" / "answers.py.txt"
    (tmp_path / "answers.py").write_text(source.read_text("utf-8"), encoding="utf-8")
    assert module(tmp_path / "answers.py", monkeypatch).choice_in(text) == choice


# Inspect leaves streams open
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_inspect_ai_runs_a_folder(small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inspect_ai = pytest.importorskip("inspect_ai")
    folder = write_for_harness(small.release, tmp_path / "task", "inspect-ai", frames=6, private=True).path
    task = module(folder / "slvmeval.py", monkeypatch).slvmeval()
    logs = tmp_path / "logs"
    (log,) = inspect_ai.eval(task, model="mockllm/model", log_dir=str(logs), display="none")
    assert log.status == "success"
    rows, coverage = judgements_from(next(logs.iterdir()), small.release, "")
    assert (len(rows), rows[0].evaluator) == (16, "mockllm/model")
    assert coverage == "0 answers to 16 requests, 16 without a choice"


#: What the harnesses printed of the logs in `logs`, which they wrote on these pairs.
PRINTED = {
    "inspect-ai.eval": {
        "aesthetics": None,
        "comprehensiveness": 0.5,
        "dynamics_degree": 0.5,
        "temporal_flow": 1.0,
    },
    "lmms-eval.jsonl": {
        "aesthetics": 1.0,
        "comprehensiveness": 0.75,
        "dynamics_degree": 0.5,
        "temporal_flow": 0.5,
    },
}


def accuracies(rows: list[Any], release: Release, path: Path) -> dict[str, float | None]:
    path.write_bytes(submission_bytes(make_submission(release, rows, CARD, UsedPrices())))
    checked = check_submission(path, release)
    return {aspect: one.accuracy for aspect, one in checked.submission.accuracies.items()}


@pytest.mark.parametrize("log", PRINTED)
def test_log_becomes_a_submission_of_equal_accuracies(small: Small, tmp_path: Path, log: str) -> None:
    rows, coverage = judgements_from(LOGS / log, small.release, "mock")
    silent = 2 if log.endswith(".eval") else 3
    assert coverage == f"{16 - silent} answers to 16 requests, {silent} without a choice"
    assert accuracies(rows, small.release, tmp_path / "mine.json") == PRINTED[log]


def json_log(epochs: int, path: Path) -> Path:
    """Write the log as Inspect AI's ``--log-format json`` has it: samples by epoch, the last one silent."""
    header, samples = eval_parts(LOGS / "inspect-ai.eval")
    again = []
    for epoch in range(1, epochs + 1):
        for sample in samples:
            last = epoch == epochs > 1
            score = {"value": math.nan, "answer": ""} if last else sample["scores"]["choice"]
            again.append({**sample, "epoch": epoch, "scores": {"choice": score}})
    path.write_text(json.dumps({**header, "samples": again}), encoding="utf-8")
    return path


def test_a_json_log_of_several_epochs_becomes_repeats(small: Small, tmp_path: Path) -> None:
    one, coverage = judgements_from(json_log(1, tmp_path / "one.json"), small.release, "mock")
    same, _ = judgements_from(LOGS / "inspect-ai.eval", small.release, "mock")
    assert one == same
    assert coverage == "14 answers to 16 requests, 2 without a choice"
    rows, coverage = judgements_from(json_log(3, tmp_path / "three.json"), small.release, "mock")
    assert coverage == "28 answers to 48 requests, 20 without a choice"
    assert sorted({row.repeat for row in rows}) == [0, 1, 2]
    assert len({row.key for row in rows}) == 48
    by_repeat = [[row.choice for row in rows if row.repeat == repeat] for repeat in range(3)]
    assert by_repeat[0] == by_repeat[1] == [row.choice for row in same]
    assert set(by_repeat[2]) == {None}
    # Inspect counts what a provider's cache has apart
    log = json.loads((tmp_path / "one.json").read_text("utf-8"))
    for sample in log["samples"]:
        for usage in sample["model_usage"].values():
            usage |= {"input_tokens": 40, "input_tokens_cache_read": 60, "input_tokens_cache_write": 5}
    (tmp_path / "cached.json").write_text(json.dumps(log), encoding="utf-8")
    cached, _ = judgements_from(tmp_path / "cached.json", small.release, "mock")
    assert {row.tokens_in for row in cached} == {105}
    # an epoch that is not whole is missing, and named; so is a sample that an error ended
    log = json.loads((tmp_path / "three.json").read_text("utf-8"))
    log["samples"].pop()
    log["samples"][-1]["error"] = {"message": "the server is down"}
    (tmp_path / "part.json").write_text(json.dumps(log), encoding="utf-8")
    with pytest.raises(UserInputError, match="2 missing"):
        judgements_from(tmp_path / "part.json", small.release, "mock")


#: What each harness's command has to name: the file of its task, and what that file has to have.
NAMED = {
    "inspect-ai": ("inspect eval slvmeval.py --model PROVIDER/MODEL", "slvmeval.py", "@task\ndef slvmeval("),
    "lmms-eval": ("--include_path . --tasks slvmeval --model MODEL", "slvmeval.yaml", "task: slvmeval\n"),
}


@pytest.mark.parametrize("harness", HARNESSES)
def test_the_commands_of_a_folder_name_what_is_there(
    small: Small, tmp_path: Path, harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_for_harness(small.release, tmp_path / "task", harness, frames=6, private=True).path
    readme = (folder / "README.md").read_text("utf-8")
    run, submit = re.findall(r"```sh\n(.*?)```", readme, re.DOTALL)
    command, file, has = NAMED[harness]
    assert command in " ".join(run.replace("\\\n", " ").split())
    assert has in (folder / file).read_text("utf-8")
    # the log is at the place that the command names, by the harness's rules for names
    (log,) = re.findall(r"submission make \S+ --answers (\S+)", submit)
    kept = next(path for path in LOGS.iterdir() if path.stem == harness)
    assert Path(log).suffix == kept.suffix
    (tmp_path / "card.toml").write_text('name = "A judge"\nauthors = ["A. Person"]\n', encoding="utf-8")
    words = submit.split()[1:]
    given = {log: str(kept), "STORE": str(small.release.store.root), "mine.json": str(tmp_path / "mine.json")}
    given["card.toml"] = str(tmp_path / "card.toml")
    assert main([given.get(word, word) for word in words]) == 0, capsys.readouterr()
    made = check_submission(tmp_path / "mine.json", small.release)
    assert {name: one.accuracy for name, one in made.submission.accuracies.items()} == PRINTED[kept.name]


def table(release: Release) -> list[dict[str, str]]:
    orders = ("high_first", "low_first")
    return [{"pair": one.pair_id, "order": o, "choice": "first"} for one in release.pairs() for o in orders]


def as_csv(rows: list[dict[str, str]], path: Path) -> Path:
    path.write_text("pair,order,choice\n" + "".join(",".join(row.values()) + "\n" for row in rows))
    return path


def test_a_table_becomes_a_submission(small: Small, tmp_path: Path) -> None:
    rows = table(small.release)
    lines = tmp_path / "mine.jsonl"
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for path in (as_csv(rows, tmp_path / "mine.csv"), lines):
        made, _ = judgements_from(path, small.release, "mine")
        assert set(accuracies(made, small.release, tmp_path / "mine.json").values()) == {0.5}
    path = as_csv(rows[1:], tmp_path / "part.csv")
    part, coverage = judgements_from(path, small.release, "mine", partial=True)
    assert coverage == "15 answers to 16 requests, 0 without a choice, 1 missing"
    assert [row.failure for row in part if row.failure] == ["no_answer"]
    with pytest.raises(UserInputError, match="does not name a model"):
        judgements_from(path, small.release, "", partial=True)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rows: rows.pop(), r"15 answers to 16 requests.*1 missing\n.*low_first: missing\n.*--partial"),
        (lambda rows: rows.append(rows[0]), r"line 18: pair \w+, high_first: there twice, see line 2"),
        (lambda rows: rows.append({**rows[0], "choice": "second"}), "line 18.*first and second, see line 2"),
        (lambda rows: rows[3].update(pair="f" * 64), "line 5: pair 'f{64}' is not in the release"),
        (lambda rows: rows[3].update(order="left"), "line 5: the order 'left' is neither"),
        (lambda rows: rows[3].update(choice="third"), "line 5: the choice 'third' is not"),
    ],
)
def test_table_with_a_mistake_is_named(small: Small, tmp_path: Path, change: Any, said: str) -> None:
    rows = table(small.release)
    change(rows)
    with pytest.raises(UserInputError, match=f"(?s){said}"):
        judgements_from(as_csv(rows, tmp_path / "mine.csv"), small.release, "mine")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"target": "first"', '"target": "second"', "line 1: the target 'second' contradicts the release"),
        ('"right": false', '"right": true', "line 1: the choice 'second' contradicts the score True"),
        ('"id": "0', '"id": "z', "line 1: row 'z578"),
        ('"mean_of_aspects"', '"accuracy"', "neither a log of Inspect AI"),
    ],
)
def test_log_with_a_mistake_is_named(small: Small, tmp_path: Path, old: str, new: str, said: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text((LOGS / "lmms-eval.jsonl").read_text("utf-8").replace(old, new, 1), encoding="utf-8")
    with pytest.raises(UserInputError, match=said):
        judgements_from(path, small.release, "mine")


@pytest.mark.parametrize("name", ["log.eval", "log.json", "log.jsonl", "log.csv"])
def test_a_file_of_another_kind_is_refused(small: Small, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"[1]")
    with pytest.raises(UserInputError, match=r"neither a log of Inspect AI|0 answers to 16 requests"):
        judgements_from(tmp_path / name, small.release, "mine")
