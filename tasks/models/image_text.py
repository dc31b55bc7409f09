"""Any image-text-to-text model of transformers: several pictures and texts in, text out.

Code inside a checkpoint is never run: its classes must be those of the installed transformers.
"""

from __future__ import annotations

import copy
import json
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from PIL import Image

from storage_schemas.errors import PrerequisiteError, UserInputError
from tasks.llm.exchange import Sampling
from tasks.models.residence import Batches
from tasks.models.torch_model import TransformersModel, loading, memory_errors, prepare_torch

log = logging.getLogger(__name__)

#: The kind of these models.
IMAGE_TEXT = "image-text-to-text"
#: Files; every processor has at least one of them.
_PROCESSORS = ("processor_config.json", "preprocessor_config.json")
#: Texts of counting conversations; no template shortens them.
_SYSTEM, _USER = "System words.", "User words."

#: A chat: messages with ``role`` and a list ``content`` of parts ``text`` and ``image`` (a picture).
Chat = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Generated:
    """A model's reply to a chat.

    Parameters
    ----------
    text
        The text, without special tokens.
    tokens_in, tokens_out
        Tokens of the chat with its pictures, and of the text with its end.
    ended
        Whether the model ended it before the token limit.
    seconds, together
        Its share of the batch's time, and the number of chats in the batch.
    """

    text: str
    tokens_in: int
    tokens_out: int
    ended: bool
    seconds: float
    together: int


def check_type(model_type: str, where: str, own_code: bool = False) -> None:
    """Check that transformers has an image-text-to-text model of a type.

    Parameters
    ----------
    model_type
        ``model_type`` of the checkpoint's ``config.json``.
    where
        The checkpoint, for the message.
    own_code
        Whether the checkpoint brings its own code.

    Raises
    ------
    UserInputError
        If it has none.
    """
    # before importing transformers, which must not access the network
    prepare_torch()
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

    if model_type in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES:
        return
    code = " and its own code, which is never run" if own_code else ""
    raise UserInputError(
        f"{where} is not an image-text-to-text model of the installed transformers: it has the type "
        f"{model_type!r}{code}. Choose another model (the hub lists them under image-text-to-text), or serve "
        "it and use vlm-video"
    )


def check_checkpoint(folder: Path) -> None:
    """Check, without loading it, that a folder holds an image-text-to-text model with its processor.

    Raises
    ------
    UserInputError
        If it is a model of another kind.
    PrerequisiteError
        If its configuration, processor or chat template is missing.
    """
    config = _json(folder / "config.json")
    check_type(str(config.get("model_type", "")), str(folder), "auto_map" in config)
    processors = [_json(folder / name) for name in _PROCESSORS if (folder / name).is_file()]
    if not processors:
        raise PrerequisiteError(
            f"{folder} has no processor, which prepares pictures: add {' or '.join(_PROCESSORS)} from the "
            "model's repository, and register the folder again with `slvmeval models add`"
        )
    tokenizer = folder / "tokenizer_config.json"
    settings = [*processors, *([_json(tokenizer)] if tokenizer.is_file() else [])]
    files = any((folder / name).is_file() for name in ("chat_template.jinja", "chat_template.json"))
    if not files and not any(one.get("chat_template") for one in settings):
        raise PrerequisiteError(
            f"{folder} has no chat template, so nothing says how a request is written for it: choose a model "
            "that was trained for chats, or add chat_template.jinja"
        )


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError) as problem:
        raise PrerequisiteError(
            f"{path} cannot be read ({problem}): fetch or add the model again"
        ) from problem
    return value if isinstance(value, dict) else {}


class ImageTextModel(TransformersModel):
    """A loaded model and its processor.

    Attributes
    ----------
    positions
        Maximum number of tokens of a chat with its answer; None if its configuration does not say.
    """

    what = "an image-text-to-text model"
    model_class = "AutoModelForImageTextToText"
    backend = None
    whole = True
    usual_dtype = "bfloat16"

    @classmethod
    def load(cls, path: Path, device: str, dtype: str | None = None) -> Self:
        """Load the checkpoint in a folder, which must take several pictures in a chat."""
        check_checkpoint(path)
        loaded = super().load(path, device, dtype)
        with loading(path, "a model that takes several pictures in a chat"):
            loaded.image_tokens(64, 64)
        return loaded

    def __init__(self, model: Any, processor: Any, device: str, dtype: str) -> None:
        super().__init__(model, processor, device, dtype)
        self._tokenizer = processor.tokenizer
        # generation continues at the right
        self._tokenizer.padding_side = "left"
        if self._tokenizer.pad_token is None:
            self._tokenizer.pad_token = self._tokenizer.eos_token
        self.positions: int | None = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        self._special = _special_tokens(self._tokenizer, processor)
        self._takes_system: bool | None = None
        self._batches: dict[int, Batches] = {}
        self._images: dict[tuple[int, int], int] = {}
        # a tokenizer's padding is state: threads that prepare requests count tokens meanwhile
        self._lock = threading.RLock()

    def text_tokens(self, text: str) -> int:
        """Return the number of tokens of a text."""
        with self._lock:
            return len(
                self._tokenizer(self.plain(text), add_special_tokens=False, verbose=False)["input_ids"]
            )

    def image_tokens(self, width: int, height: int) -> int:
        """Return the number of tokens of a picture of this size, with the marks around it."""
        size = width, height
        if size not in self._images:
            blank = {"type": "image", "image": Image.new("RGB", size)}
            one, two = (self._count([blank] * count) for count in (1, 2))
            self._images[size] = two - one
        return self._images[size]

    def _count(self, pictures: Sequence[Mapping[str, Any]]) -> int:
        chat = (
            {"role": "system", "content": [{"type": "text", "text": _SYSTEM}]},
            {"role": "user", "content": [{"type": "text", "text": _USER}, *pictures]},
        )
        return int(self._inputs([chat])["input_ids"].shape[1])

    def plain(self, text: str) -> str:
        """Return a text without special tokens: each loses its first character."""
        for mark in self._special:
            while mark in text:
                text = text.replace(mark, mark[1:])
        return text

    def generate(self, chats: Sequence[Chat], sampling: Sampling, at_once: int) -> list[Generated]:
        """Return the model's reply to each chat; if memory runs out, the batch is halved.

        Parameters
        ----------
        sampling
            Without a temperature, or with 0, the most likely token is always taken. Other values of the
            checkpoint's ``generation_config.json``, such as a penalty for repetition, apply.
        at_once
            Maximum number of chats in a batch.

        Raises
        ------
        PrerequisiteError
            If a single chat does not fit into the device's memory after all other models of the process were
            freed, or the checkpoint's chat template drops texts.
        """
        batches = self._batches.setdefault(at_once, Batches(at_once, owner=self, what="request"))
        return batches.run(len(chats), lambda part: self._generate(chats[part], sampling))

    def _generate(self, chats: Sequence[Chat], sampling: Sampling) -> list[Generated]:
        torch = prepare_torch()
        began = time.perf_counter()
        with memory_errors(), torch.inference_mode():
            inputs = self._inputs(chats).to(self.device, dtype=self._model.dtype)
            made = self._model.generate(**inputs, generation_config=self._configured(sampling)).cpu()
        seconds = (time.perf_counter() - began) / len(chats)
        given = inputs["attention_mask"].sum(dim=1).tolist()
        before = int(inputs["input_ids"].shape[1])
        log.info("%d requests answered together, %.1f s each", len(chats), seconds)
        return [
            self._read(row[before:].tolist(), int(tokens), seconds, len(chats))
            for row, tokens in zip(made, given, strict=True)
        ]

    def _configured(self, sampling: Sampling) -> Any:
        config = copy.deepcopy(self._model.generation_config)
        config.max_new_tokens, config.max_length = sampling.most_tokens, None
        config.do_sample = bool(sampling.temperature)
        if config.pad_token_id is None:
            config.pad_token_id = self._tokenizer.pad_token_id
        if config.do_sample:
            config.temperature = sampling.temperature
            config.top_p = config.top_p if sampling.top_p is None else sampling.top_p
        else:
            config.temperature = config.top_p = config.top_k = None
        return config

    def _read(self, ids: list[int], tokens_in: int, seconds: float, together: int) -> Generated:
        ends = self._model.generation_config.eos_token_id
        ends = (
            {self._tokenizer.eos_token_id} if ends is None else {ends} if isinstance(ends, int) else set(ends)
        )
        end = next((index for index, token in enumerate(ids) if token in ends), None)
        # what comes after the end fills the batch's row
        kept = ids if end is None else ids[:end]
        text = self._tokenizer.decode(kept, skip_special_tokens=True)
        length = len(kept) + (end is not None)
        return Generated(text, tokens_in, length, end is not None, seconds, together)

    def _inputs(self, chats: Sequence[Chat]) -> Any:
        """Return the model's inputs for some chats, padded to the same length."""
        pictures = [
            [part["image"] for message in chat for part in message["content"] if part["type"] == "image"]
            for chat in chats
        ]
        with self._lock:
            return self._processor(
                text=[self._rendered(chat) for chat in chats],
                images=pictures if any(pictures) else None,
                padding=True,
                return_tensors="pt",
                # the template writes them
                add_special_tokens=False,
            )

    def _rendered(self, chat: Chat) -> str:
        """Return a chat in the template's form: without system messages, their text becomes the user's."""
        plain = [
            {**message, "content": [self._plain(part) for part in message["content"]]} for message in chat
        ]
        if self._takes_system is not False:
            text, dropped = self._written(plain)
            if not dropped:
                return text
        merged = _merged(plain)
        text, dropped = self._written(merged)
        if dropped:
            raise PrerequisiteError(
                f"the model's chat template does not write {dropped[:40]!r} of a request: it takes no texts "
                "between pictures; choose another model"
            )
        self._takes_system = False
        return text

    @property
    def takes_system(self) -> bool:
        """Whether the template has system messages; if not, their text comes first in the user's message."""
        return self._takes_system is not False

    def _written(self, chat: Chat) -> tuple[str, str]:
        """Return the template's output, and the first text that it omits, or an empty one."""
        from jinja2 import TemplateError

        try:
            text = str(self._processor.apply_chat_template(chat, add_generation_prompt=True, tokenize=False))
        except TemplateError:
            text = ""
        texts = [part["text"] for message in chat for part in message["content"] if part["type"] == "text"]
        return text, next((one for one in texts if one.strip() not in text), "")

    def _plain(self, part: Mapping[str, Any]) -> dict[str, Any]:
        return {**part, "text": self.plain(part["text"])} if part["type"] == "text" else {"type": "image"}


def _merged(chat: Chat) -> list[dict[str, Any]]:
    """Return a chat whose system message is the first text of the user's."""
    before = [part for message in chat if message["role"] == "system" for part in message["content"]]
    first, *rest = [dict(message) for message in chat if message["role"] != "system"]
    content = [*before, *first["content"]]
    if len(before) == 1 and content[1]["type"] == "text":
        content[:2] = [{"type": "text", "text": f"{content[0]['text']}\n\n{content[1]['text']}"}]
    return [{**first, "content": content}, *rest]


def _special_tokens(tokenizer: Any, processor: Any) -> list[str]:
    """Return the tokens that a text must not contain: markers of pictures and of the ends of messages."""
    added = {str(token) for token in tokenizer.added_tokens_decoder.values() if token.special}
    marks = {str(getattr(processor, name, None) or "") for name in ("image_token", "video_token")}
    return sorted((added | set(tokenizer.all_special_tokens) | marks) - {""})


load = ImageTextModel.load
