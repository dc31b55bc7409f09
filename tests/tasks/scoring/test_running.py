"""The parts that runs are made of: choosing evaluators, texts, rates, limits, prices, tasks."""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.judgements import Judgement, preferred
from storage_schemas.store import Store
from tasks import plugins
from tasks.aspects.registry import BUILT_IN as ASPECTS
from tasks.aspects.registry import aspect
from tasks.llm.limits import Limits, RateLimit, Spending
from tasks.llm.shared_state import SharedState
from tasks.llm.usage import Estimate, Prices, load_prices
from tasks.scoring import registry
from tasks.scoring.engine import batches
from tasks.scoring.instructions import aspect_text
from tasks.scoring.registry import choice_from_text, choices_from_file
from tasks.scoring.request import PairFacts, Request
from tasks.scoring.setup import Setup


def row(usd: float | None = None, tokens: int = 0) -> Judgement:
    fields = {"key": "k", "evaluator": "e", "settings": "s", "pair_id": "p", "source_id": "v", "aspect": "a"}
    return Judgement.model_validate(
        {**fields, "order": "high_first", "cost_usd": usd, "tokens_in": tokens, "preferred": "high"}
    )


# -- choosing ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a?b", "write NAME"),
        ("a?concurrency=0", "concurrency"),
        ("a?label=x/y", "label"),
        ("a?=3", "write NAME"),
    ],
)
def test_settings_that_cannot_be_read_and_those_that_can(text: str, says: str) -> None:
    with pytest.raises(UserInputError, match=says):
        choice_from_text(text)
    chosen = choice_from_text("clip?policy=each%26all&frames=3&concurrency=8&label=mine")
    assert chosen.settings == {"policy": "each&all", "frames": 3}
    assert (chosen.use, chosen.label, chosen.concurrency) == ("clip", "mine", 8)


def test_files_of_evaluators(tmp_path: Path) -> None:
    file = tmp_path / "judges.toml"
    file.write_text('[evaluators.one]\nuse = "coin"\nseed = 3\n[evaluators.coin]\n')
    one, coin = choices_from_file(file)
    assert (one.use, one.label, one.settings) == ("coin", "one", {"seed": 3})
    assert (coin.use, coin.label) == ("coin", "coin")
    for text, says in {
        "[a": "not TOML",
        "[judges.x]": "[evaluators.LABEL]",
        "evaluators.x = 3": "LABEL",
    }.items():
        file.write_text(text)
        with pytest.raises(UserInputError, match=re.escape(says)):
            choices_from_file(file)
    with pytest.raises(UserInputError, match="cannot be read"):
        choices_from_file(tmp_path / "nowhere.toml")


def test_settings_reach_the_factory_and_the_rest_is_filled_in(tmp_path: Path) -> None:
    setup = Setup(store_path=str(Store.create(tmp_path / "s").root))
    coin = registry.make_evaluator(choice_from_text("coin?seed=4"), setup)
    assert coin.settings() == {"seed": 4}
    motion = registry.make_evaluator(choice_from_text("motion"), setup)
    assert motion.cache is setup.cache  # type: ignore[attr-defined]
    assert Setup.model_validate_json(setup.model_dump_json()) == setup
    for text, says in (
        ("coin?sed=4", "has no setting 'sed': did you mean seed"),
        ("motion?cache=4", "no setting 'cache'"),
    ):
        with pytest.raises(UserInputError, match=says):
            registry.make_evaluator(choice_from_text(text), setup)


def test_entry_points_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    added: list[tuple[str, str]] = [("mine", "no_such_module:x")]
    monkeypatch.setattr(
        plugins,
        "installed_points",
        lambda group, _state: EntryPoints(EntryPoint(name, value, group) for name, value in added),
    )
    assert list(registry.added_evaluators()) == ["mine"]
    for value, says in (
        ("no_such_module:x", "cannot be loaded from no_such_module:x"),
        ("builtins:dict", "is not a factory"),
        ("fractions:Fraction", "has to be a PairwiseJudge"),
    ):
        added[:] = [("mine", value)]
        with pytest.raises(PrerequisiteError, match=says):
            registry.make_evaluator(choice_from_text("mine"), Setup(store_path=str(tmp_path)))
    for twice, says in (
        ([("coin", "builtins:dict")], "like a built-in evaluator"),
        ([("mine", "builtins:dict"), ("mine", "builtins:list")], "both add the evaluator 'mine'"),
    ):
        added[:] = twice
        with pytest.raises(PrerequisiteError, match=says):
            registry.added_evaluators()


# -- texts -------------------------------------------------------------------------------------------


def test_aspect_of_a_package_describes_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[3] / "docs" / "adding-an-aspect.md").read_text()
    code = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert code is not None
    package = ModuleType("grain_package")
    exec(code[1], package.__dict__)
    monkeypatch.setitem(sys.modules, "grain_package", package)
    point = EntryPoint("grain", "grain_package:ASPECT", "slvmeval.aspects")
    monkeypatch.setattr("tasks.aspects.registry.added_points", lambda *_: {"grain": point})
    aspect.cache_clear()
    try:
        assert aspect_text("grain", "grain").description == package.ASPECT.description != ""
        own = tmp_path / "descriptions" / "grain.txt"
        own.parent.mkdir()
        own.write_text("Is it clean?")
        assert aspect_text("grain", "grain", str(tmp_path)).description == "Is it clean?"
    finally:
        aspect.cache_clear()


def test_every_aspect_has_a_text_and_a_folder_replaces_it(tmp_path: Path) -> None:
    texts = {name: aspect_text(name, "x").description for name in ASPECTS}
    assert len(set(texts.values())) == 10
    assert all(len(text) > 60 for text in texts.values())
    own = tmp_path / "descriptions" / "color.txt"
    own.parent.mkdir()
    own.write_text(" Are the\n colours right? ")
    assert aspect_text("color", "x", str(tmp_path)).description == "Are the colours right?"
    assert aspect_text("aesthetics", "x", str(tmp_path)).description == texts["aesthetics"]
    with pytest.raises(PrerequisiteError, match=r"grain\.txt"):
        aspect_text("grain", "x")
    own.write_text(" ")
    with pytest.raises(UserInputError, match="is empty"):
        aspect_text("color", "x", str(tmp_path))


# -- asking ------------------------------------------------------------------------------------------


def test_answers_are_freed_from_the_order() -> None:
    assert preferred("first", "high_first") == preferred("second", "low_first") == "high"
    assert preferred("second", "high_first") == preferred("first", "low_first") == "low"
    assert preferred("tie", "low_first") == "tie"
    assert preferred("first", "apart") == "high"


def requests(counts: list[int]) -> list[Request]:
    facts = [
        PairFacts(f"p{source}-{n}", f"v{source}", "a", "a", "d", "h", "l", 1.0)
        for source, count in enumerate(counts)
        for n in range(count)
    ]
    return [Request(pair.pair_id, pair, "high_first") for pair in facts]


@given(st.lists(st.integers(1, 30), max_size=40), st.integers(1, 8), st.integers(1, 50))
def test_tasks_hold_whole_sources(counts: list[int], concurrency: int, most: int) -> None:
    asked = requests(counts)
    made = batches(asked, concurrency, most)
    assert [request for batch in made for request in batch] == asked
    homes = [{request.pair.source_id for request in batch} for batch in made]
    assert sum(map(len, homes)) == len(counts)
    assert len(made) <= most + 1
    if concurrency > 1:
        assert all(len(batch) >= 8 * concurrency for batch in made[:-1])
    elif most > sum(counts):
        assert len(made) == len(counts)


# -- what is shared ----------------------------------------------------------------------------------


COUNT_UP = """
import sys
from pathlib import Path
from types import ModuleType
from tasks.llm.shared_state import SharedState
def count_up(path, times):
    state = SharedState(path)
    for _ in range(times):
        with state.change() as values:
            values["n"] = values.get("n", 0) + 1
"""


def test_processes_and_threads_change_a_file_in_turn(tmp_path: Path) -> None:
    path, names = tmp_path / "deep" / "n.json", dict[str, Any]()
    exec(COUNT_UP, names)
    code = f"{COUNT_UP}\nprint('ready', flush=True)\ncount_up(Path(sys.argv[1]), 300)"
    with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"ready\n"
        with ThreadPoolExecutor(3) as pool:
            for done in [pool.submit(names["count_up"], path, 100) for _ in range(3)]:
                done.result()
    assert SharedState(path).read() == {"n": 600}


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_a_rate_is_kept_by_several_that_share_it(tmp_path: Path) -> None:
    clock = Clock()
    both = [RateLimit(tmp_path, "gpt", 60, None, clock, clock.sleep) for _ in range(2)]
    for n in range(65):
        assert both[n % 2].wait(0)
    # five at once, then one a second
    assert clock.now - 1000 == pytest.approx(60, abs=1)
    other = RateLimit(tmp_path, "other", 60, None, clock, clock.sleep)
    before = clock.now
    assert other.wait(0)
    assert clock.now == before


def test_tokens_are_paid_afterwards(tmp_path: Path) -> None:
    clock = Clock()
    rate = RateLimit(tmp_path, "gpt", None, 6000, clock, clock.sleep)
    # one request may take more than ever gathers; the next one waits for the debt
    assert rate.wait(100)
    rate.correct(100, 6500)
    assert clock.now == 1000
    assert rate.wait(100)
    assert clock.now - 1000 == pytest.approx(60, abs=1.5)
    assert not rate.wait(100, stopped=lambda: True)


def test_limits_count_what_is_under_way(tmp_path: Path) -> None:
    spending = Spending(tmp_path / "run.json", Limits(usd=1.0))
    assert spending.reserve("a", 0.4, 10)
    assert spending.reserve("b", 0.4, 10)
    assert not spending.reserve("a", 0.4, 10), "0.8 dollars are under way"
    assert "1.0 dollars" in spending.stopped("a")
    assert not spending.stopped("b")
    spending.release("b", 0.4, 10)
    assert spending.reserve("b", 0.4, 10)
    spending.count("b", row(0.9), 0.4, 10)
    counts = spending.counts()["b"]
    assert (counts["usd"], counts["reserved_usd"]) == (0.9, 0)
    assert spending.reserve("free", 0.0, 0), "what costs nothing continues"
    spending.count("free", row(0.3, 10), 0.0, 0)
    assert not spending.reserve("free", 0.0, 0), "it was not free"
    for reason in ("another reason", "a later reason"):
        spending.stop("b", reason)
    assert spending.stopped("b") == "another reason"


def test_prices(tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    file.write_text('[models."m"]\ninput_per_million = 2\noutput_per_million = 10\n')
    prices = load_prices(str(file))
    assert prices.cost("m", 500_000, 100_000) == pytest.approx(2.0)
    assert prices.cost("other", 1, 0) is None
    assert prices.cost("other", 0, 0) == 0
    assert prices.of([Estimate(tokens_in=10, model="m"), Estimate(tokens_in=1, model="x")]) is None
    assert isinstance(load_prices(), Prices)
    for text, says in (("[", "not TOML"), ("[models.m]\ninput_per_million = -1", "models.m")):
        file.write_text(text)
        with pytest.raises(UserInputError, match=says):
            load_prices(str(file))


#: Beginnings of words that tell what is done to the clips of each aspect (SLVMEval, 4.3 and appendix E.2).
OPERATIONS = {
    "aesthetics": "contrast invert negative exchang dull flat wash pale dark bright light luma",
    "technical_quality": "resiz resampl downscal upscal shrink small enlarg lanczos resolution detail sharp",
    "appearance_style": "cartoon oil paint pencil sketch watercolo detail enhanc styliz drawn drawing",
    "background_consistency": "replac landscape swap exchang composit matte other elsewhere",
    "object_integrity": "remov eras inpaint delet missing smear vanish whole damage",
    "color": "recolo repaint hue shift chang edit another",
    "dynamics_degree": "freez frozen still photograph stop repeat first single",
    "comprehensiveness": "remov cut delet missing drop omit absent lack",
    "spatial_relationship": "mirror flip revers exchang left right swap",
    "temporal_flow": "mov insert shuffl reorder swap exchang permut early late",
}


def test_judges_are_not_told_how_videos_are_degraded() -> None:
    texts = {name: (aspect_text(name, name).description, words) for name, words in OPERATIONS.items()}
    hints = "degrad alter manipul damage original untouched worse"
    prompts = [
        file for file in resources.files("tasks.scoring").joinpath("prompts").iterdir() if file.is_file()
    ]
    assert len(prompts) >= 6
    texts |= {prompt.name: (prompt.read_text(encoding="utf-8"), hints) for prompt in prompts}
    for name, (text, words) in texts.items():
        told = [word for word in re.findall(r"[a-z]+", text.lower()) if word.startswith(tuple(words.split()))]
        assert told == [], name
