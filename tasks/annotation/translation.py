"""Translate captions with any OpenAI-compatible model, for workers who prefer another language.

Each translation is stored as soon as it arrives, by caption, language and settings, and is paid for once. A
failure is reported, and workers read that caption untranslated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from pydantic import Field

from storage_schemas.ids import digest_text, digest_value
from storage_schemas.json_lines import LinesFolder
from storage_schemas.model import Frozen
from storage_schemas.names import Name
from storage_schemas.rng import derived_seed
from tasks.annotation.installation import annotation_folder
from tasks.llm.answers import UnusableAnswer
from tasks.llm.exchange import ChatAnswer, ChatRequest, Sampling
from tasks.llm.json_answers import unwrapped
from tasks.llm.prompt_files import prompt_text
from tasks.llm.questions import Question, Unanswered, as_data, ask_questions, whole_text
from tasks.llm.servers import Servers, check_server
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
        The model that answered, as the server names it.
    tokens_in, tokens_out, seconds, tries
        Cost of the answer; `tries` counts attempts.
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


class TranslationStore:
    """The translations of a store.

    Parameters
    ----------
    root
        Folder of the store.
    """

    def __init__(self, root: Path) -> None:
        folder = annotation_folder(root) / "translations"
        self._lines = LinesFolder(folder, Translation, "that caption is translated again")

    def __enter__(self) -> TranslationStore:
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
        """Store a translation; it is on disk when this returns.

        Raises
        ------
        SetAside
            If the store is full or cannot be written.
        """
        self._lines.append(row)


#: The paper's model (SLVMEval, appendix A.2).
MODEL = "Qwen/Qwen3-Next-80B-A3B-Instruct-FP8"
#: Names of languages in prompts; users name other languages in full.
LANGUAGE_NAMES = {"en": "English", "ja": "Japanese"}

_ADVICE = "leave out the fields that only vLLM supports (--set plain_sampling=true)"
#: Requests prepared at a time.
_BATCH = 2000
#: A longer translation is rejected, in characters (times the caption's length, plus): the model did not stop.
_MAX_TIMES, _MAX_MORE = 4, 200
#: A text in the language contains at least one of these letters.
_LETTERS = {"ja": re.compile(r"[\u3041-\u30ff\u3400-\u9fff]"), "en": re.compile(r"[A-Za-z]")}


#: Its prompt.
TRANSLATION = "translation/translation"


def default_prompt() -> str:
    """Return the default instruction."""
    return prompt_text(TRANSLATION)


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
        Whether to send `top_k` and `min_p`: vLLM supports them, OpenAI's own servers reject them.
    tries
        Maximum attempts per caption until an answer is usable.
    most_tokens
        Maximum tokens of an answer.
    """

    language: str = Field(default="ja", min_length=2)
    model: str = Field(default=MODEL, min_length=1)
    server: Name = "translation"
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
    """Result of translating captions.

    Parameters
    ----------
    texts
        Translations by the checksum of their caption.
    asked, known
        Number of captions that had to be translated, and of those translated before.
    failed
        Why a caption has no translation, by the checksum of the caption.
    """

    texts: dict[str, str]
    asked: int
    known: int
    failed: dict[str, str] = field(default_factory=dict)

    def in_words(self) -> str:
        """Return the result as a sentence."""
        words = f"{len(self.texts)} captions are translated, {self.asked - len(self.failed)} of them now"
        if not self.failed:
            return f"{words}."
        reasons = "; ".join(list(dict.fromkeys(self.failed.values()))[:3])
        return f"{words}; {len(self.failed)} stay untranslated: {reasons}."


def translate_captions(
    captions: Iterable[str],
    parameters: TranslationParameters,
    servers: Servers,
    store: TranslationStore,
    progress: Callable[[int, int, str], None] | None = None,
) -> TranslationResult:
    """Translate the captions that have no stored translation; equal captions once.

    Parameters
    ----------
    progress
        Called after each caption with (captions done, captions to translate, the error message or "").

    Raises
    ------
    PrerequisiteError
        If the server cannot be used; translations received before are stored.
    SetAside
        If the store is full or cannot be written.
    """
    wanted = {digest_text(caption): caption for caption in captions if has_words(caption)}
    stored = store.read(parameters.language, parameters.settings)
    texts = {digest: stored[digest].text for digest in wanted if digest in stored}
    missing = [
        _TranslationQuestion(digest, caption, parameters)
        for digest, caption in wanted.items()
        if digest not in stored
    ]
    known, failed = len(texts), dict[str, str]()

    def on_result(question: _TranslationQuestion, result: Translation | Unanswered) -> None:
        if isinstance(result, Translation):
            store.append(result)
            texts[question.digest] = result.text
        else:
            failed[question.digest] = result.message
        if progress is not None:
            progress(len(texts) - known + len(failed), len(missing), failed.get(question.digest, ""))

    if missing:
        server = servers.find(parameters.server, parameters.model)
        check_server(server)
        for begin in range(0, len(missing), _BATCH):
            batch = missing[begin : begin + _BATCH]
            ask_questions(server, batch, parameters.tries, "captions", "translation", on_result, _ADVICE)
    return TranslationResult(texts, len(missing), known, failed)


class _TranslationQuestion(Question[Translation]):
    """A request to translate one caption."""

    def __init__(self, digest: str, caption: str, parameters: TranslationParameters) -> None:
        super().__init__()
        self.digest = digest
        self._caption = caption
        self._parameters = parameters

    def request(self) -> ChatRequest:
        """Return the next request; each attempt has another seed."""
        parameters = self._parameters
        language = LANGUAGE_NAMES.get(parameters.language, parameters.language)
        return ChatRequest(
            messages=(
                {"role": "system", "content": parameters.prompt.replace("{language}", language)},
                {"role": "user", "content": as_data(caption=self._caption)},
            ),
            sampling=Sampling(
                temperature=parameters.temperature,
                top_p=parameters.top_p,
                seed=derived_seed("translation", self.digest, len(self.unfit)) % 2**31,
                most_tokens=parameters.most_tokens,
            ),
            extra_body=(
                {"top_k": parameters.top_k, "min_p": parameters.min_p} if parameters.send_top_k else {}
            ),
        )

    def accepted(self, answer: ChatAnswer) -> Translation:
        """Return the translation; raise UnusableAnswer if the answer is not a translation of the caption."""
        parameters = self._parameters
        _, text = whole_text(answer, parameters.most_tokens)
        text = unwrapped(text)
        if not has_words(text):
            raise UnusableAnswer("it has no words")
        if len(text) > _MAX_TIMES * len(self._caption) + _MAX_MORE:
            raise UnusableAnswer("it is far longer than the caption")
        letters = _LETTERS.get(parameters.language)
        if letters is not None and not letters.search(text):
            raise UnusableAnswer(f"it is not in {LANGUAGE_NAMES[parameters.language]}")
        return Translation(
            caption=self.digest,
            language=parameters.language,
            settings=parameters.settings,
            text=text,
            model=answer.model,
            tokens_in=answer.tokens_in,
            tokens_out=answer.tokens_out,
            seconds=answer.seconds,
            tries=len(self.answers),
            # of two translations of a caption, the newest is shown
            at=datetime.now(UTC).isoformat(),
        )
