"""Translate captions with any OpenAI-compatible model, for workers who prefer another language.

Each translation is kept as soon as it arrives, by caption, language and settings, and is paid for once. If
one fails, this is reported and the worker reads the caption untranslated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import Field

from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.ids import digest_text, digest_value
from storage_schemas.json_lines import LinesFolder
from storage_schemas.model import Frozen
from storage_schemas.rng import derived_seed
from tasks.annotation.installation import annotation_folder
from tasks.llm.answers import NotFitting, split_thinking
from tasks.llm.chat import ChatAnswer, ChatRequest, Sampling, ask_all
from tasks.llm.servers import ChatServer, Servers, check_server
from tasks.models.texts import has_words


class Translation(Frozen):
    """One translated caption.

    Parameters
    ----------
    caption
        SHA-256 of the caption.
    language
        Target language.
    settings
        Checksum of the model, the prompt and all other parameters.
    text
        The translation.
    model
        What the server calls the model that answered.
    tokens_in, tokens_out, seconds, tries
        Cost of the answer.
    at
        When the answer came, UTC.
    """

    caption: str
    language: str
    settings: str
    text: str
    model: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None
    seconds: float = 0.0
    tries: int = 1
    at: str = ""


class KeptTranslations:
    """The translations of a store.

    Parameters
    ----------
    root
        Folder of the store.
    """

    def __init__(self, root: Path) -> None:
        folder = annotation_folder(root) / "translations"
        self._lines = LinesFolder(folder, Translation, "that caption is asked about again")

    def __enter__(self) -> KeptTranslations:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()

    def read(self, language: str, settings: str | None = None) -> dict[str, Translation]:
        """Return the translations into a language by the checksum of their caption.

        Parameters
        ----------
        settings
            Only translations with these settings; by default the newest of each caption.
        """
        newest: dict[str, Translation] = {}
        for row in self._lines.rows():
            if row.language == language and settings in (None, row.settings):
                before = newest.get(row.caption)
                if before is None or before.at <= row.at:
                    newest[row.caption] = row
        return newest

    def append(self, row: Translation) -> None:
        """Keep a translation; it is on disk when this returns.

        Raises
        ------
        SetAside
            If the store is full or cannot be written.
        """
        self._lines.append(row)


PROMPT_FILE = Path(__file__).parent / "prompts" / "translation.txt"
#: The paper's model (SLVMEval, section 4.4).
MODEL = "Qwen/Qwen3-Next-80B-A3B-Instruct-FP8"
#: Names of languages in prompts; users name other languages in full.
LANGUAGE_NAMES = {"en": "English", "ja": "Japanese"}

#: Requests that are prepared at a time.
_AT_ONCE = 2000
#: A translation that is so much longer than its caption is rejected: the model did not stop.
_MOST_TIMES, _MOST_MORE = 4, 200
#: A text in such a language contains these letters.
_LETTERS = {"ja": re.compile(r"[\u3041-\u30ff\u3400-\u9fff]"), "en": re.compile(r"[A-Za-z]")}


@cache
def default_prompt() -> str:
    """Return the default instruction."""
    return PROMPT_FILE.read_text(encoding="utf-8").strip()


def read_prompt(path: Path) -> str:
    """Return an instruction written by the user.

    Raises
    ------
    UserInputError
        If the file cannot be read, or does not contain ``{language}``.
    """
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise UserInputError(f"the prompt {path} cannot be read: {problem}") from problem
    if "{language}" not in text:
        raise UserInputError(f"the prompt {path} does not say into which language: write {{language}} in it")
    return text


class TranslationParameters(Frozen):
    """How captions are translated; all but `server` and `tries` are part of a translation's key.

    Parameters
    ----------
    language
        Target language: ``en``, ``ja``, or a language's name as the model knows it.
    model
        The model.
    server
        The server's name in ``[model_servers]`` of the profile.
    prompt
        The instruction; ``{language}`` is replaced with the language.
    temperature, top_p, top_k, min_p
        Sampling; the defaults are recommended by the model's makers.
    send_top_k
        Whether to send `top_k` and `min_p`: vLLM knows them, OpenAI's own servers refuse them.
    tries
        How often to ask about a caption until an answer is usable.
    most_tokens
        Longest answer in tokens.
    """

    language: str = Field(default="ja", min_length=2)
    model: str = Field(default=MODEL, min_length=1)
    server: str = Field(default="translation", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    prompt: str = Field(default_factory=default_prompt, min_length=1)
    temperature: float = Field(default=0.7, ge=0, le=2)
    top_p: float = Field(default=0.8, gt=0, le=1)
    top_k: int = Field(default=20, ge=-1)
    min_p: float = Field(default=0.0, ge=0, le=1)
    send_top_k: bool = True
    tries: int = Field(default=3, ge=1, le=10)
    most_tokens: int = Field(default=4096, ge=64)

    @property
    def settings(self) -> str:
        """Checksum of everything but the caption that a translation depends on."""
        return digest_value(self.model_dump(mode="json", exclude={"server", "tries"}))


@dataclass(frozen=True)
class TranslationResult:
    """The result for some captions.

    Parameters
    ----------
    texts
        Translations by the checksum of their caption.
    asked, known
        Captions that were asked about now, and those that were translated already.
    failed
        By caption, why it has no translation.
    """

    texts: dict[str, str]
    asked: int
    known: int
    failed: dict[str, str] = field(default_factory=dict)

    def in_words(self) -> str:
        """Return a sentence that tells the result."""
        words = f"{len(self.texts)} captions are translated, {self.asked - len(self.failed)} of them now"
        if not self.failed:
            return f"{words}."
        reasons = "; ".join(list(dict.fromkeys(self.failed.values()))[:3])
        return f"{words}; {len(self.failed)} stay as they are: {reasons}."


def translate_captions(
    captions: Iterable[str],
    parameters: TranslationParameters,
    servers: Servers,
    kept: KeptTranslations,
    progress: Callable[[int, int, str], None] | None = None,
) -> TranslationResult:
    """Translate the captions that are not translated yet; equal captions are asked about once.

    Parameters
    ----------
    progress
        Called with (captions done, all that are asked about, what was done).

    Raises
    ------
    PrerequisiteError
        If the server cannot be used; what it answered until then is kept.
    SetAside
        If the store is full or cannot be written.
    """
    wanted = {digest_text(caption): caption for caption in captions if has_words(caption)}
    there = kept.read(parameters.language, parameters.settings)
    texts = {digest: there[digest].text for digest in wanted if digest in there}
    missing = [
        _TranslationQuestion(digest, caption, parameters)
        for digest, caption in wanted.items()
        if digest not in there
    ]
    failed: dict[str, str] = {}
    refused: list[str] = []
    if missing:
        server = servers.find(parameters.server, parameters.model)
        check_server(server)
    for begin in range(0, len(missing), _AT_ONCE):
        some = missing[begin : begin + _AT_ONCE]

        def on_answer(
            place: int, answer: ChatAnswer, some: Sequence[_TranslationQuestion] = some
        ) -> ChatRequest | None:
            question = some[place]
            took = question.take(answer)
            if isinstance(took, ChatRequest):
                return took
            if isinstance(took, Translation):
                kept.append(took)
                texts[question.digest] = took.text
            else:
                failed[question.digest] = took
                if answer.error is not None:
                    refused.append(took)
            if progress is not None:
                done = len(failed) + len(texts) - (len(wanted) - len(missing))
                progress(done, len(missing), "" if isinstance(took, Translation) else took)
            return None

        ask_all(server, [question.request() for question in some], on_answer)
        _check_not_all_refused(server, some, texts, refused)
    return TranslationResult(texts, len(missing), len(wanted) - len(missing), failed)


def _check_not_all_refused(
    server: ChatServer, asked: Sequence[_TranslationQuestion], texts: dict[str, str], refused: Sequence[str]
) -> None:
    """Raise PrerequisiteError where a server refused all of several captions for one reason."""
    if len(asked) > 2 and len(set(refused)) == 1 and not any(one.digest in texts for one in asked):
        raise PrerequisiteError(
            f"model server {server.name} at {server.base} refused all {len(asked)} captions alike: "
            f"{refused[0]}. If it is a field that it does not know, leave out what only vLLM knows "
            "(--plain-sampling)"
        )


class _TranslationQuestion:
    """One caption until an answer can be used."""

    def __init__(self, digest: str, caption: str, parameters: TranslationParameters) -> None:
        self.digest = digest
        self._caption = caption
        self._parameters = parameters
        self._unusable: list[str] = []

    def request(self) -> ChatRequest:
        """Return what is asked."""
        parameters = self._parameters
        language = LANGUAGE_NAMES.get(parameters.language, parameters.language)
        # half characters, which JSON can name, cannot be sent; marks like `<|im_end|>` would end the message
        text = self._caption.encode("utf-8", "replace").decode("utf-8")
        data = json.dumps({"caption": text}, ensure_ascii=False).replace("<", "\\u003c")
        extra: dict[str, Any] = (
            {"top_k": parameters.top_k, "min_p": parameters.min_p} if parameters.send_top_k else {}
        )
        return ChatRequest(
            messages=(
                {"role": "system", "content": parameters.prompt.replace("{language}", language)},
                {"role": "user", "content": data},
            ),
            sampling=Sampling(
                temperature=parameters.temperature,
                top_p=parameters.top_p,
                seed=derived_seed("translation", self.digest, len(self._unusable)) % 2**31,
                most_tokens=parameters.most_tokens,
            ),
            extra_body=extra,
        )

    def take(self, answer: ChatAnswer) -> Translation | ChatRequest | str:
        """Return the translation, or what is asked next, or why there is none."""
        if answer.error is not None:
            return answer.error
        try:
            text = self._translation(answer)
        except NotFitting as problem:
            self._unusable.append(str(problem))
            if len(self._unusable) < self._parameters.tries:
                return self.request()
            reasons = "; ".join(dict.fromkeys(self._unusable))
            return f"{self._parameters.model} gave no translation in {len(self._unusable)} tries: {reasons}"
        return Translation(
            caption=self.digest,
            language=self._parameters.language,
            settings=self._parameters.settings,
            text=text,
            model=answer.model,
            tokens_in=answer.tokens_in,
            tokens_out=answer.tokens_out,
            seconds=answer.seconds,
            tries=len(self._unusable) + 1,
            # of two translations of a caption the newest is shown
            at=datetime.now(UTC).isoformat(),
        )

    def _translation(self, answer: ChatAnswer) -> str:
        if answer.finish_reason == "length":
            raise NotFitting(f"it was not at its end after {self._parameters.most_tokens} tokens")
        _, text = split_thinking(answer.text)
        if not has_words(text):
            raise NotFitting("it is empty")
        if len(text) > _MOST_TIMES * len(self._caption) + _MOST_MORE:
            raise NotFitting("it is far longer than the caption")
        letters = _LETTERS.get(self._parameters.language)
        if letters is not None and not letters.search(text):
            raise NotFitting(f"it is not in {LANGUAGE_NAMES[self._parameters.language]}")
        return text
