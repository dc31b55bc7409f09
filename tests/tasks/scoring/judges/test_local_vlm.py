"""The judge `hf`: what it asks is what the server's judge asks; on tiny checkpoints of two families."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from slvmeval.testing import check_evaluator
from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.judgements import Failure
from storage_schemas.store import Store
from tasks.llm.exchange import ChatAnswer, ChatRequest
from tasks.llm.usage import NotJudged
from tasks.models.add import add_model
from tasks.scoring.base import AspectText
from tasks.scoring.features import FeatureCache
from tasks.scoring.judges.local_vlm import LocalJudge, LocalVlm
from tasks.scoring.judges.vlm import IntervalJudge, VideoJudge
from tasks.scoring.registry import choice_from_text, make_evaluator
from tasks.scoring.request import settings_digest
from tasks.scoring.setup import Setup
from tests.once import Once
from tests.tasks.scoring.judges.asked import MODEL, Videos, client
from tests.tiny_models.image_text import tiny_idefics, tiny_qwen_vl

COLOUR = AspectText(name="color", dimension="color", description="Whether the colours are those of the text.")
PROMPT = "A red car.\nA <image> mark."
COMMIT = "0123456789" * 4


def weights(once: Once) -> Path:
    """Return a model folder with both families, added as if they came from the hub."""

    def make(folder: Path) -> None:
        for name, tiny in (("qwen", tiny_qwen_vl), ("idefics", tiny_idefics)):
            origin: dict[str, Any] = {
                "repository": f"someone/{name}",
                "revision": COMMIT,
                "licence": "CC0-1.0",
            }
            checkpoint = once(f"tiny-{name}", tiny)
            add_model(f"someone--{name}", checkpoint, folder, kind="image-text-to-text", **origin)
        add_model("a-clip", once("tiny-qwen", tiny_qwen_vl), folder, kind="clip")

    return once("tiny-image-text-weights", make)


def judge(folder: Path, settings: str, store: Path) -> LocalJudge:
    opened = Store.create(store) if not store.exists() else Store.open(store)
    setup = Setup(store_path=str(opened.root), model_folders=(str(folder),))
    made = make_evaluator(choice_from_text(f"hf?{settings}"), setup)
    assert isinstance(made, LocalJudge)
    return made


def test_missing_weights_are_reported_with_the_command(tmp_path: Path) -> None:
    with pytest.raises(PrerequisiteError, match="slvmeval models add someone/other"):
        judge(tmp_path / "none", "model=someone/other", tmp_path / "store")
    with pytest.raises(UserInputError, match="hf: model:"):
        judge(tmp_path / "none", "dtype=float32", tmp_path / "store")
    with pytest.raises(UserInputError, match="frame_side"):
        judge(tmp_path / "none", "model=someone/other&frame_side=3", tmp_path / "store")


@pytest.mark.parametrize("intervals", [False, True])
def test_it_asks_what_the_servers_judge_asks(intervals: bool, videos: Videos) -> None:
    """The same texts, and the same pictures, byte for byte."""
    asked: list[ChatRequest] = []

    class Client:
        def ask(self, request: ChatRequest) -> ChatAnswer:
            asked.append(request)
            return ChatAnswer(
                text='{"better": "first", "intervals": []}' if intervals else '{"better": "first"}'
            )

    class Source:
        name = repository = "tiny"
        identity = checksum = "x"
        device, dtype, positions, takes_system = "cpu", "float32", 60_000, True

        def model(self) -> Source:
            return self

        def settings(self) -> dict[str, Any]:
            return {}

        libraries = settings

        def text_tokens(self, text: str) -> int:
            return len(text)

        def image_tokens(self, width: int, height: int) -> int:
            return 100

    from tasks.scoring.judges.local_vlm import LocalIntervalJudge

    kinds: tuple[type[LocalJudge], type[VideoJudge]] = (
        (LocalIntervalJudge, IntervalJudge) if intervals else (LocalJudge, VideoJudge)
    )
    source: Any = Source()
    local = kinds[0]("hf", LocalVlm(model="tiny"), source, FeatureCache())
    local._asked = Client()
    served = kinds[1]("served", MODEL, client("http://127.0.0.1:1/v1"), FeatureCache())
    answer = local.compare(PROMPT, *videos, COLOUR)
    assert (answer.choice, answer.usage.frames) == ("first", 5)
    assert asked[0].messages == served.make_request(PROMPT, *videos, COLOUR).messages
    # what does not fit is a reason, not a shorter request
    source.positions = 1200
    with pytest.raises(NotJudged) as caught:
        local.compare(PROMPT * 100, *videos, COLOUR)
    assert caught.value.failure is Failure.CONTEXT_TOO_LONG


@pytest.mark.models
@pytest.mark.parametrize("family", ["qwen", "idefics"])
def test_it_keeps_an_evaluators_promises(family: str, once: Once, tmp_path: Path, videos: Videos) -> None:
    asked = judge(weights(once), f"model=someone/{family}&dtype=float32", tmp_path / "store")
    asked.check()
    check_evaluator(asked)
    with ThreadPoolExecutor(asked.concurrency) as pool:
        orders = [videos, videos[::-1]] * 3
        answers = list(pool.map(lambda order: asked.compare(PROMPT, *order, COLOUR), orders))
    details = answers[0].details
    assert details["model"]["revision"] == COMMIT
    assert details["system_as"] == {"qwen": "system", "idefics": "user"}[family]
    assert details["tokens"]["out"] == 2
    # counted by its own processor; the marks around messages are approximate
    assert details["tokens"]["expected_in"] == pytest.approx(details["tokens"]["in"], abs=40)
    assert (answers[0].usage.tokens_in, answers[0].usage.paid) == (0, False)


@pytest.mark.models
def test_its_key_has_the_exact_weights_and_not_how_it_runs(once: Once, tmp_path: Path) -> None:
    folder, store = weights(once), tmp_path / "store"
    base = "model=someone/qwen&dtype=float32"
    digest = settings_digest(judge(folder, base, store))
    assert settings_digest(judge(folder, f"{base}&batch_size=9&revision=0123456", store)) == digest
    for other in ("model=someone/idefics&dtype=float32", "model=someone/qwen", f"{base}&temperature=0.5"):
        assert settings_digest(judge(folder, other, store)) != digest
    with pytest.raises(PrerequisiteError, match=r"at revision 0123456789.*but abcdef0 is asked for"):
        judge(folder, f"{base}&revision=abcdef0", store)
    with pytest.raises(UserInputError, match=r"is of kind 'clip', but one of kind 'image-text-to-text'"):
        judge(folder, "model=a-clip", store).check()
    bare = Path(shutil.copytree(once("tiny-qwen", tiny_qwen_vl), tmp_path / "bare"))
    (bare / "processor_config.json").unlink()
    add_model("bare", bare, tmp_path / "other", kind="image-text-to-text")
    with pytest.raises(PrerequisiteError, match="bare has no processor"):
        judge(tmp_path / "other", "model=bare", store).check()
