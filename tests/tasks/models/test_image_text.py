"""Image-text-to-text models: loading, chats with pictures, batches; on tiny checkpoints of two families."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from storage_schemas.errors import PrerequisiteError, UserInputError
from tasks.llm.exchange import Sampling
from tests.once import Once
from tests.tiny_models.image_text import ANSWERS, tiny_idefics, tiny_qwen_vl

pytestmark = pytest.mark.models

FAMILIES = {"qwen": tiny_qwen_vl, "idefics": tiny_idefics}
GREEDY = Sampling(temperature=0.0, most_tokens=16)


@pytest.fixture(scope="module", params=FAMILIES)
def folder(request: pytest.FixtureRequest, once: Once) -> Path:
    return once(f"tiny-{request.param}", FAMILIES[request.param])


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    from tasks.models.image_text import load

    return load(folder, "cpu", "float32")


def chat(pictures: int, text: str = "Which?", seed: int = 0) -> list[dict[str, Any]]:
    noise = np.random.default_rng(seed).integers(0, 256, (pictures, 36, 64, 3), dtype=np.uint8)
    shown = [{"type": "image", "image": Image.fromarray(one)} for one in noise]
    parts = [{"type": "text", "text": text}, *shown, {"type": "text", "text": "And:"}, *shown]
    system = [{"type": "text", "text": "Judge the videos."}]
    return [{"role": "system", "content": system}, {"role": "user", "content": parts}]


def test_chats_of_other_lengths_are_answered_together(model: Any) -> None:
    chats = [chat(2), chat(3, "Which is better? " * 5, 1), chat(1, seed=2)]
    together = model.generate(chats, GREEDY, 3)
    assert [one.together for one in together] == [3, 3, 3]
    for one, alone in zip(chats, together, strict=True):
        (again,) = model.generate([one], GREEDY, 1)
        assert (again.text, again.tokens_in, again.tokens_out) == (alone.text, alone.tokens_in, 2)
        assert alone.ended
        assert alone.text in ANSWERS


def test_tokens_are_the_models_own(model: Any) -> None:
    one, more = (model.generate([chat(count)], GREEDY, 1)[0].tokens_in for count in (1, 3))
    assert more - one == 4 * model.image_tokens(64, 36)
    longer = model.generate([chat(1, "Which? ä €")], GREEDY, 1)[0].tokens_in
    assert longer - one == model.text_tokens(" ä €")


def test_no_text_is_a_mark_of_the_model(model: Any) -> None:
    text = "a <image> <|im_end|> <|image_pad|> {brace}"
    given = model._rendered(chat(1, text))
    plain = model.plain(text)
    assert plain in given
    assert "{brace}" in plain
    assert not any(mark in plain for mark in model._special)
    assert model.generate([chat(1, text)], GREEDY, 1)[0].ended


def test_a_template_without_system_messages_gets_them_as_the_users(folder: Path, model: Any) -> None:
    given = model._rendered(chat(1))
    assert model.takes_system == ("qwen" in folder.name)
    assert given.count("Judge the videos.") == 1
    between = given.split("Judge the videos.")[1].split("Which?")[0]
    assert between == "\n\n" or "<|im_start|>user" in between


def test_an_answer_that_the_limit_cuts_has_not_ended(model: Any) -> None:
    (said,) = model.generate([chat(1)], Sampling(most_tokens=1), 1)
    assert (said.ended, said.tokens_out) == (False, 1)


def test_memory_that_runs_out_halves_the_batch(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    whole, sizes = model._model.generate, []

    def generate(**inputs: Any) -> Any:
        sizes.append(len(inputs["input_ids"]))
        if sizes[-1] > 2:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return whole(**inputs)

    monkeypatch.setattr(model._model, "generate", generate)
    said = model.generate([chat(1, seed=seed) for seed in range(5)], GREEDY, 5)
    assert (len(said), sizes) == (5, [5, 2, 2, 1])
    monkeypatch.setattr(model._model, "generate", _no_memory)
    with pytest.raises(PrerequisiteError, match="a single request does not fit"):
        model.generate([chat(1)], GREEDY, 5)


def _no_memory(**_: Any) -> Any:
    raise RuntimeError("CUDA out of memory")


def _without(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).unlink()


def _of_type(model_type: str, **more: Any) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "model_type": model_type, **more}))

    return change


def _lacking_weights(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    del weights[max(weights)]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def _without_texts(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text("{% for message in messages %}<|im_start|>{% endfor %}")


@pytest.mark.parametrize(
    ("change", "kind", "says"),
    [
        (_of_type("bert"), UserInputError, "is not an image-text-to-text model.*'bert'"),
        (_of_type("mine", auto_map={}), UserInputError, "its own code, which is never run"),
        (_without("processor_config.json"), PrerequisiteError, "has no processor"),
        (_without("chat_template.jinja"), PrerequisiteError, "has no chat template"),
        (_without("config.json"), PrerequisiteError, r"config\.json cannot be read"),
        (_without("model.safetensors"), PrerequisiteError, "cannot be loaded as an image-text-to-text model"),
        (_lacking_weights, PrerequisiteError, "its weights lack"),
        (_without_texts, PrerequisiteError, "chat template does not write"),
    ],
)
def test_what_cannot_judge_is_refused(
    change: Callable[[Path], object], kind: type[Exception], says: str, once: Once, tmp_path: Path
) -> None:
    from tasks.models.image_text import load

    folder = Path(shutil.copytree(once("tiny-qwen", tiny_qwen_vl), tmp_path / "changed"))
    change(folder)
    with pytest.raises(kind, match=says):
        load(folder, "cpu", "float32")
