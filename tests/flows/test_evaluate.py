"""Evaluators over a small release: every request is made once, and each failure harms only itself."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flows.score.evaluate_run import EVALUATE, Evaluation, estimate
from flows.score.options import EvaluateOptions, evaluate_options
from flows.score.parameters import EvaluateParameters
from flows.score.results import EvaluationResult, RequestProgress
from infra.executor import ProcessExecutor
from infra.profile import Profile
from storage_schemas.errors import IntegrityError, PrerequisiteError, StoreError, UserInputError
from storage_schemas.judgements import Judgement, JudgementsStore
from storage_schemas.locks import only_one
from storage_schemas.release import Release
from storage_schemas.store import DEGRADED_CLIP, Store
from tasks.llm.limits import Limits
from tasks.publish.submission import Card, UsedPrices, check_submission, make_submission, submission_bytes
from tasks.report.judged_release import load_judged_release
from tasks.report.probe_tables import probe_tables
from tasks.report.severity_power_cost import cost_table
from tasks.report.wording_tables import wording_tables
from tasks.scoring.registry import choice_from_text
from tasks.scoring.release_pairs import Selection
from tasks.scoring.wordings import in_wordings, wordings_in
from tasks.statistics.cells import cells_of
from tests.flows.conftest import RunRecorded
from tests.flows.prefect_servers import ROOT, wait_for
from tests.flows.small_builds import only
from tests.inline import build_inline, evaluate_inline
from tests.planted_evaluators import PlantedPackage
from tests.small_films import FilmsOfModule

ASPECTS = ("aesthetics", "comprehensiveness", "dynamics_degree")
FILMS = 3


@pytest.fixture(scope="module")
def built(films_of_module: FilmsOfModule) -> Path:
    """A store with a release of three aspects of three films."""
    return build_inline(only(films_of_module(*range(FILMS)), *ASPECTS)).release.store.root


@pytest.fixture
def store(built: Path, tmp_path: Path) -> Path:
    shutil.copytree(built, tmp_path / "store")
    return tmp_path / "store"


def asked(store: Path, *evaluators: str, **fields: object) -> EvaluateOptions:
    chosen = tuple(choice_from_text(text) for text in evaluators)
    return EvaluateOptions.model_validate({"store": str(store), "evaluators": chosen, **fields})


def rows(store: Path, *evaluators: str) -> list[Judgement]:
    return JudgementsStore(Store.open(store)).rows(evaluators)


def total(result: EvaluationResult, label: str) -> tuple[int, int, int]:
    (outcome,) = [one for one in result.evaluators if one.label == label]
    return outcome.total.answered, sum(outcome.total.failures.values()), outcome.total.left


def test_evaluation_tells_right_first_and_ties_apart(store: Path, planted: PlantedPackage) -> None:
    result = evaluate_inline(asked(store, "planted?label=right", 'planted?mood="first"'))
    assert result.exit_code == 0
    assert total(result, "right") == (18, 0, 0)
    right = rows(store, "right")
    assert {row.preferred for row in right if row.aspect == "comprehensiveness"} == {"high"}
    assert {row.preferred for row in right if row.aspect != "comprehensiveness"} == {"tie"}
    first = rows(store, "first")
    assert [row.choice for row in first] == ["first"] * 18
    assert sorted(row.preferred or "" for row in first) == ["high"] * 9 + ["low"] * 9
    assert {row.settings for row in right}.isdisjoint({row.settings for row in first})
    assert all(row.frames == 2 and row.model == "toy" and row.at for row in first)
    release = Release.open(Store.open(store))
    assert {row.pair_id for row in first} == {record.pair_id for record in release.pairs()}


def test_scorer_is_a_judge_and_shares_the_scores_of_a_source(store: Path, planted: PlantedPackage) -> None:
    result = evaluate_inline(asked(store, "lengths"))
    assert total(result, "lengths") == (9, 0, 0)
    # of each film three low videos and one high one
    assert planted.asked("lengths") == 4 * FILMS
    outcome = {row.aspect: row for row in rows(store, "lengths")}
    assert outcome["comprehensiveness"].preferred == "high"
    assert outcome["aesthetics"].preferred == "tie"
    shorter = outcome["comprehensiveness"]
    assert (shorter.score_high or 0) > (shorter.score_low or 0)
    assert shorter.order == "apart"


def test_probes_are_columns_of_their_own_and_what_is_shared_is_asked_once(
    store: Path, planted: PlantedPackage
) -> None:
    probes = ("blind", "one-frame", "equal", "no-prompt")
    chosen = [choice_from_text(name) for name in ("planted", "duration")]
    chosen += [choice.model_copy(update={"probe": name}) for choice in chosen for name in probes]
    asked_for = EvaluateOptions.model_validate({"store": str(store), "evaluators": tuple(chosen)})
    result = evaluate_inline(asked_for)
    # all films have the same prompt: blind is one question an aspect, equal one for each film and aspect
    assert planted.asked("right") == 18 + 3 + 18 + 9 + 18
    assert total(result, "right+blind") == total(result, "right+equal") == (9, 0, 0)
    stopped = {one.label: one.stopped for one in result.evaluators if one.stopped}
    assert set(stopped) == {"duration+blind", "duration+equal", "duration+no-prompt"}
    assert "changes the prompt, which this evaluator does not use" in stopped["duration+no-prompt"]
    assert {row.probe for row in rows(store, "right+blind")} == {"blind"}
    # one frame each: nothing tells the videos apart
    assert {row.preferred for row in rows(store, "right+one-frame")} == {"tie"}
    again = evaluate_inline(asked_for)
    assert sum(one.asked for one in again.evaluators) == 0
    gathered = load_judged_release(Release.open(Store.open(store)))
    assert set(gathered.names.values()) == {"right", "duration"}
    table, differences = probe_tables(gathered)
    (row,) = [r for r in table.rows if (r["aspect"], r["evaluator"]) == ("comprehensiveness", "right")]
    assert (row["accuracy"], row["one-frame"], row["no-prompt"], row["blind"]) == (1.0, 0.5, 1.0, 0.5)
    assert row["rests_on"] == "more than one frame"
    assert all(one["failed"] == 0 for one in differences.rows)


def test_wordings_are_evaluators_of_their_own_beside_the_accuracies(
    store: Path, planted: PlantedPackage, tmp_path: Path
) -> None:
    words = {
        "best/judges/video_judge_system": "Which is better?",
        "lazy/judges/video_judge_system": "Take the first.",
        "lazy/descriptions/aesthetics": "Is it a pleasure?",
    }
    for key, text in words.items():
        place = tmp_path / "words" / f"{key}.txt"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    chosen = in_wordings(map(choice_from_text, ("planted", "lengths")), wordings_in(tmp_path / "words"))
    asked_for = EvaluateOptions.model_validate({"store": str(store), "evaluators": chosen})
    result = evaluate_inline(asked_for)
    assert [one.label for one in result.evaluators] == ["right", "lengths", "right+best", "right+lazy"]
    assert {row.wording for row in rows(store, "right+lazy")} == {("right", "lazy")}
    # a description of its own makes the aspect's settings others
    assert len({row.settings for row in rows(store, "right+lazy")}) == 2
    assert sum(one.asked for one in evaluate_inline(asked_for).evaluators) == 0
    gathered = load_judged_release(Release.open(Store.open(store)))
    assert set(gathered.names.values()) == {"right", "lengths"}
    spread, each, parts = wording_tables(gathered)
    held = {(row["aspect"], row["wording"]): row["accuracy"] for row in each.rows}
    assert held["comprehensiveness", "its own"] == held["comprehensiveness", "best"] == 1.0
    assert held["comprehensiveness", "lazy"] == held["aesthetics", "lazy"] == 0.5
    (row,) = [one for one in spread.rows if one["aspect"] == "comprehensiveness"]
    assert (row["wordings"], row["pairs"], row["least"], row["most"]) == (3, FILMS, 0.5, 1.0)
    assert {one["part"] for one in parts.rows} == {"pair", "wording", "pair and wording", "order"}
    # each wording is paid for, whatever its descriptions
    cost = {row["evaluator"]: row["requests"] for row in cost_table(gathered).rows}
    assert cost["right+best"] == cost["right+lazy"] == cost["right"] == 6 * len(ASPECTS)


def test_estimate_counts_what_wordings_and_probes_ask(
    store: Path, planted: PlantedPackage, tmp_path: Path
) -> None:
    for name in ("best", "lazy"):
        place = tmp_path / "words" / name / "judges" / "video_judge_system.txt"
        place.parent.mkdir(parents=True)
        place.write_text(f"Which? ({name})", encoding="utf-8")
    given = EvaluateParameters(
        store=str(store), evaluators=("planted?tokens=10",), prompts=str(tmp_path / "words"),
        probes=("one-frame", "blind"), repeats=2,
    )  # fmt: skip
    evaluation = Evaluation(evaluate_options(given, Profile(store=str(store))), RequestProgress(quiet=True))
    evaluation.prepare(ask_servers=False)
    rows_of = {
        (row.evaluator, row.aspect): (row.requests, row.cost.tokens_in) for row in estimate(evaluation)
    }
    # in both orders, of three films, twice; probes are asked in the judge's own words alone
    names = ("right", "right+best", "right+lazy", "right+one-frame")
    expected = {(name, aspect): (12, 120) for name in names for aspect in ASPECTS}
    # the films have one prompt: without a video it is one question
    assert rows_of == expected | {("right+blind", aspect): (2, 20) for aspect in ASPECTS}


def test_wordings_that_cannot_be_used_are_refused(
    store: Path, planted: PlantedPackage, tmp_path: Path
) -> None:
    place = tmp_path / "words" / "one" / "judges" / "video_judge_system.txt"
    place.parent.mkdir(parents=True)
    place.write_text("Which?", encoding="utf-8")
    # a folder of prompts is one wording, and what is none is told by those who read prompts
    assert [wordings_in(one) for one in (None, tmp_path / "none", tmp_path / "words" / "one")] == [{}] * 3
    with pytest.raises(UserInputError, match="lengths has none to exchange"):
        in_wordings([choice_from_text("lengths")], wordings_in(tmp_path / "words"))
    # the same words twice are one evaluator
    shutil.copytree(tmp_path / "words" / "one", tmp_path / "words" / "two")
    chosen = in_wordings([choice_from_text("planted")], wordings_in(tmp_path / "words"))
    with pytest.raises(UserInputError, match=r"right\+one and right\+two are one evaluator"):
        evaluate_inline(EvaluateOptions.model_validate({"store": str(store), "evaluators": chosen}))
    place.with_name("caption_sytem.txt").write_text("Say.", encoding="utf-8")
    with pytest.raises(UserInputError, match="there is no such prompt"):
        wordings_in(tmp_path / "words")


def test_evaluation_asks_nothing_twice(store: Path, planted: PlantedPackage) -> None:
    evaluate_inline(asked(store, "planted", selection=Selection(aspects=("aesthetics",))))
    assert planted.asked("right") == 6
    again = evaluate_inline(asked(store, "planted"))
    assert planted.asked("right") == 18
    (one,) = again.evaluators
    assert (one.found_before, one.asked) == (6, 12)
    evaluate_inline(asked(store, "planted", repeats=2))
    assert planted.asked("right") == 36, "another repeat is another request"
    # with every answer there nothing is needed; without one, what is missing is reported
    (planted.folder / "asked" / "away").touch()
    (one,) = evaluate_inline(asked(store, "planted", repeats=2)).evaluators
    assert (one.stopped, one.found_before) == ("", 36)
    with pytest.raises(PrerequisiteError, match="right: the server is away"):
        evaluate_inline(asked(store, "planted", repeats=3))


def test_failure_harms_no_other_evaluator(store: Path, planted: PlantedPackage) -> None:
    moods = ["raises", "refused", "prose", "nonsense", "missing", "mistyped", "exits"]
    moods += ["unsettled", "half-a-sign"]
    result = evaluate_inline(asked(store, *(f"planted?mood={mood}" for mood in moods), "planted"))
    assert result.exit_code == 3
    assert total(result, "right") == (18, 0, 0)
    assert total(result, "prose") == (0, 18, 0)
    assert {r.raw for r in rows(store, "prose")} == {"Both are nice."}
    assert total(result, "nonsense") == (0, 18, 0)
    assert {(row.failure, row.message) for row in rows(store, "raises")} == {
        ("internal_error", "ZeroDivisionError: planted")
    }
    stopped = {one.label: one.stopped for one in result.evaluators}
    assert stopped["refused"] == "the key is refused"
    assert planted.asked("refused") == 1
    assert total(result, "refused") == (0, 1, 17)
    assert "weights are missing" in stopped["missing"]
    assert not planted.asked("missing")
    assert total(result, "mistyped") == total(result, "exits") == (0, 18, 0)
    assert {row.message for row in rows(store, "mistyped")} == {"it gave raw = None: must be text"}
    assert "settings() are not JSON-serialisable" in stopped["planted"]
    # half a sign is not a reason to lose an answer, and must not spoil the store for all
    assert {(row.choice, row.raw) for row in rows(store, "half-a-sign")} == {("first", "good \ufffd")}
    # what lies with the machine is asked again by itself, what would fail again only when it is wanted
    evaluate_inline(asked(store, "planted?mood=prose", "planted?mood=raises"))
    assert (planted.asked("prose"), planted.asked("raises")) == (18, 36)
    evaluate_inline(asked(store, "planted?mood=prose", retry={"not_understood"}))
    assert planted.asked("prose") == 36


def test_evaluation_without_a_usable_evaluator_is_an_error(store: Path, planted: PlantedPackage) -> None:
    with pytest.raises(PrerequisiteError, match="weights are missing"):
        evaluate_inline(asked(store, "planted?mood=missing"))
    with pytest.raises(UserInputError, match="did you mean planted"):
        evaluate_inline(asked(store, "plante"))
    with pytest.raises(UserInputError, match="did you mean mood"):
        evaluate_inline(asked(store, "planted?moood=1"))
    with pytest.raises(UserInputError, match="2 evaluators are called 'right'"):
        evaluate_inline(asked(store, "planted", "planted?seconds=1"))
    with pytest.raises(UserInputError, match="lengths and again are one evaluator with the same settings"):
        evaluate_inline(asked(store, "lengths", "lengths?label=again"))
    assert not planted.asked("lengths")


def test_limits_end_a_run_cleanly(store: Path, planted: PlantedPackage, tmp_path: Path) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text('as_of = "today"\n[models.toy]\ninput_per_million = 1000\noutput_per_million = 0\n')
    few = asked(store, "planted?tokens=100", "lengths", limits=Limits(usd=0.55), prices=str(prices))
    result = evaluate_inline(few)
    assert result.exit_code == 3
    assert total(result, "right") == (5, 0, 13)
    assert total(result, "lengths") == (9, 0, 0)
    (paid, free) = result.evaluators
    assert paid.usd == pytest.approx(0.5)
    assert paid.tokens == 500
    assert "0.55 dollars" in paid.stopped
    assert not free.stopped
    assert free.usd == 0
    result = evaluate_inline(asked(store, "planted?tokens=100", limits=Limits(tokens=300)))
    assert total(result, "right") == (8, 0, 10)
    assert not list((store / "cache" / "evaluations").glob("*.json"))


def test_evaluation_does_not_pay_for_identical_pairs_of_another_release(
    store: Path, planted: PlantedPackage
) -> None:
    evaluate_inline(asked(store, "planted"))
    kept = JudgementsStore(Store.open(store))
    outcome = kept.rows()
    shutil.rmtree(kept.path)
    kept.add(row.model_copy(update={"pair_id": f"other-{row.pair_id}", "cost_usd": 1.0}) for row in outcome)
    result = evaluate_inline(asked(store, "planted"))
    assert planted.asked("right") == 18
    assert total(result, "right") == (18, 0, 0)
    shared = [row for row in rows(store) if not row.pair_id.startswith("other-")]
    assert {row.cost_usd for row in shared} == {0.0}
    assert all("other-" in row.details for row in shared)


def test_evaluation_refuses_a_changed_release(store: Path, planted: PlantedPackage) -> None:
    opened = Release.open(Store.open(store))
    clip = next(iter(opened.store.manifests(DEGRADED_CLIP)))
    opened.store.remove(DEGRADED_CLIP, clip.id)
    with pytest.raises(StoreError, match="degraded clip artifacts"):
        evaluate_inline(asked(store, "planted"))
    table = opened.path / "clips.parquet"
    table.write_bytes(table.read_bytes() + b" ")
    with pytest.raises(IntegrityError, match=r"clips\.parquet"):
        evaluate_inline(asked(store, "planted"))
    assert not planted.asked("right")


def test_selection_is_nested_and_reports_what_is_not_there(store: Path, planted: PlantedPackage) -> None:
    def pairs(**fields: object) -> set[str]:
        evaluation = Evaluation(asked(store, "planted", selection=fields), RequestProgress(quiet=True))
        evaluation.prepare()
        return {pair.pair_id for pair in evaluation.wanted}

    one, two = pairs(most_per_aspect=1), pairs(most_per_aspect=2)
    assert (len(one), len(two)) == (3, 6)
    assert one < two
    some = sorted(one)[0]
    assert pairs(pairs=(some[:20],)) == {some}
    with pytest.raises(UserInputError, match="aspect 'colour': there are aesthetics"):
        pairs(aspects=("colour",))
    with pytest.raises(UserInputError, match="0 pairs have an id"):
        pairs(pairs=("zzz",))


def test_runs_do_not_pay_for_the_same(store: Path, planted: PlantedPackage) -> None:
    evaluation = Evaluation(asked(store, "planted", "lengths"), RequestProgress(quiet=True))
    evaluation.prepare()
    with only_one(evaluation.lock_file(evaluation.judges[0])) as held:
        assert held
        result = evaluate_inline(asked(store, "planted", "lengths"))
        assert total(result, "right") == (0, 0, 18)
        assert "another run" in result.evaluators[0].stopped
        assert total(result, "lengths") == (9, 0, 0)
        renamed = evaluate_inline(asked(store, "planted?label=renamed"))
        assert total(renamed, "renamed") == (0, 0, 18)
        assert "another run" in renamed.evaluators[0].stopped
    assert total(evaluate_inline(asked(store, "planted")), "right") == (18, 0, 0)


def test_evaluator_that_is_told_something_else_is_another(
    store: Path, planted: PlantedPackage, tmp_path: Path
) -> None:
    texts = tmp_path / "texts"
    (texts / "descriptions").mkdir(parents=True)
    (texts / "descriptions" / "aesthetics.txt").write_text("Is it a pleasure to look at?")
    evaluate_inline(asked(store, "planted"))
    again = evaluate_inline(asked(store, "planted", prompts=str(texts)))
    assert total(again, "right") == (18, 0, 0)
    assert planted.asked("right") == 18 + 6
    gathered = load_judged_release(Release.open(Store.open(store)))
    assert len(gathered.names) == 2, "answers to two different questions are not averaged"
    cells = cells_of(gathered.trials)
    requests = sorted((aspect, cell.requests) for (_, aspect), cell in cells.items())
    assert requests == sorted([("aesthetics", 6), *((aspect, 6) for aspect in ASPECTS)])
    # a part of the pairs, and the same texts, are still the same evaluator
    some = Selection(aspects=("aesthetics",))
    evaluate_inline(asked(store, "planted", prompts=str(texts), selection=some, repeats=2))
    assert len({row.settings for row in rows(store, "right")}) == 2


def test_scorer_can_be_submitted(store: Path, planted: PlantedPackage, tmp_path: Path) -> None:
    evaluate_inline(asked(store, "lengths"))
    release = Release.open(Store.open(store))
    made = make_submission(release, rows(store, "lengths"), Card(name="L", authors=("A",)), UsedPrices())
    path = tmp_path / "lengths.json"
    path.write_bytes(submission_bytes(made))
    outcome = check_submission(path, release).submission
    assert outcome.orders == "apart"
    assert outcome.accuracies["comprehensiveness"].accuracy == 1.0


@pytest.mark.slow
def test_a_judge_that_kills_its_process_costs_its_own_requests(store: Path, planted: PlantedPackage) -> None:
    with RequestProgress(quiet=True) as progress:
        evaluation = Evaluation(asked(store, "planted?mood=kills", "planted"), progress)
        evaluation.prepare()
        result = evaluation.run(lambda _pools: ProcessExecutor(2))
    assert total(result, "right") == (18, 0, 0)
    (killer,) = [one for one in result.evaluators if one.label == "kills"]
    assert killer.aspects["aesthetics"].answered == 6
    assert killer.aspects["dynamics_degree"].answered == 6
    assert not killer.aspects["comprehensiveness"].answered
    assert not list((store / "judgements" / "running").iterdir())
    died = [row for row in rows(store, "kills") if row.failure]
    assert {(row.failure, row.aspect) for row in died} == {("internal_error", "comprehensiveness")}
    assert not killer.total.left


RUN = """
import sys
from flows.score.results import RequestProgress
from flows.score.evaluate_run import Evaluation
from infra.executor import ProcessExecutor
from infra.profile import Profile
from tests.flows.test_evaluate import asked
from pathlib import Path
if __name__ == "__main__":
    with RequestProgress(quiet=True) as progress:
        options = asked(Path(sys.argv[1]), "planted?seconds=0.2&threads=4", repeats=3)
        evaluation = Evaluation(options, progress)
        evaluation.prepare()
        evaluation.run(lambda _pools: ProcessExecutor(1))
"""


@pytest.mark.slow
def test_a_kill_in_the_middle_pays_nothing_twice_but_what_was_in_flight(
    store: Path, planted: PlantedPackage, tmp_path: Path
) -> None:
    script = tmp_path / "evaluate.py"
    script.write_text(RUN)
    environment = {**os.environ, "PYTHONPATH": f"{planted.folder}{os.pathsep}{ROOT}"}
    running = subprocess.Popen([sys.executable, str(script), str(store)], env=environment)
    wait_for(lambda: planted.asked("right") >= 20 or running.poll() is not None, 120, "twenty requests")
    running.send_signal(signal.SIGKILL)
    running.wait()
    before = -1
    while before != planted.asked("right"):  # its worker ends with it
        before = planted.asked("right")
        time.sleep(1)
    kept = len(rows(store))
    assert 20 <= before < 54, (before, kept)
    assert before - kept <= 4, (before, kept)
    result = evaluate_inline(asked(store, "planted?seconds=0.2&threads=4", repeats=3))
    assert total(result, "right") == (54, 0, 0)
    assert planted.asked("right") == 54 + before - kept, "only what was in flight was asked twice"
    assert len({(row.key, row.pair_id) for row in rows(store)}) == 54


@pytest.mark.slow
@pytest.mark.xdist_group("prefect-server")
def test_the_flow_judges_as_the_direct_run_does_and_shows_it(
    store: Path, planted: PlantedPackage, run_recorded: RunRecorded
) -> None:
    options = asked(store, "planted?label=right", "planted?mood=refused", "lengths")
    recorded, result = run_recorded(EVALUATE, options)
    assert recorded["states"] == ["Completed"]
    assert "refused stopped: the key is refused" in recorded["messages"][0]
    assert recorded["names"] == ["main · 9 pairs · right, refused, lengths"]
    assert len(recorded["tasks"]) == 3 * FILMS
    assert {"judged-main", "judgements-main"} <= recorded["artifacts"].keys()
    assert result["evaluators"]["right"]["asked"] == 18
    flown = {(row.key, row.preferred) for row in rows(store, "right", "lengths")}
    shutil.rmtree(store / "judgements")
    evaluate_inline(asked(store, "planted?label=right", "lengths"))
    assert flown == {(row.key, row.preferred) for row in rows(store)}
