"""Requests to language models; each answer is stored at once, so that it is paid for once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from storage_schemas.errors import Reason, SetAside
from storage_schemas.ids import digest_value
from tasks.llm.answer_store import AnswerStore, StoredAnswer
from tasks.llm.answers import ask, complete, not_understood, usage_of
from tasks.llm.chat import ChatClient
from tasks.llm.exchange import ChatAnswer
from tasks.llm.json_answers import AnswerForm, value_in
from tasks.llm.usage import ModelUsage, NotJudged, Usage
from tasks.llm.vision_models import VlmModel

#: Parts of a user's message: texts, images and videos.
Parts = list[dict[str, Any]]
#: Parts of a user's message with a video, and the video's frames per second; None without a video.
VideoParts = tuple[Parts, float | None]
#: Converts the JSON value of an answer; raises NotJudged if it is invalid.
Check = Callable[[Any], Any]


class AnswerNotStored(SetAside):
    """An answer was paid for but cannot be stored: the store is full or cannot be written.

    Parameters
    ----------
    usage
        Cost of the answer.
    """

    def __init__(self, reason: Reason, message: str, usage: Usage | None = None) -> None:
        super().__init__(reason, message)
        self.usage = usage or Usage()


@dataclass(frozen=True)
class CheckWithText:
    """A check for answers that may also have a form other than JSON.

    Parameters
    ----------
    check
        Converts the value, whichever form it had.
    from_text
        Returns the value of a text that is not JSON; raises ValueError, with what is wrong.
    form
        The other form in words, such as ``under headings``.
    """

    check: Check
    from_text: Callable[[str], Any]
    form: str

    def __call__(self, value: Any) -> Any:
        """Convert a value; raise NotJudged if it is invalid."""
        return self.check(value)


@dataclass(frozen=True)
class JsonAnswer:
    """An answer: its JSON value, its stored form, and its cost, which is zero if it was stored before."""

    value: Any
    stored: StoredAnswer
    reasoning: str = ""
    usage: Usage = field(default_factory=Usage)
    calls: int = 0
    found: str = ""


@dataclass
class Calls:
    """Asks one model with one sampling setting.

    Parameters
    ----------
    model, client
        The model, and the client of its server.
    answers
        The store of answers.
    """

    model: VlmModel
    client: ChatClient
    answers: AnswerStore

    def key(self, what: Mapping[str, Any], system: str, schema: Mapping[str, Any]) -> str:
        """Return the key of an answer, see :meth:`ask`."""
        return digest_value(
            {
                "asked": dict(what),
                "model": self.model.settings(lambda: self.client.server.base),
                "system": system,
                "schema": dict(schema),
            }
        )

    def ask(
        self,
        what: Mapping[str, Any],
        system: str,
        parts: Callable[[], Parts | VideoParts],
        schema: Mapping[str, Any],
        check: Check | None = None,
        notes: Callable[[], Mapping[str, Any]] | None = None,
    ) -> JsonAnswer:
        """Return the JSON value that the model answers with.

        Parameters
        ----------
        what
            Everything the answer depends on, JSON-serialisable: texts, identities of videos, frame
            positions, repeat.
        parts
            Makes the user's message; called only if there is no kept answer.
        schema
            JSON Schema of the answer.
        check
            Converts the value. If it raises NotJudged, that is raised here and the answer is not stored.
        notes
            Further fields of the :class:`StoredAnswer`; called after `parts`, if a request is made.

        Raises
        ------
        NotJudged
            If there is no answer.
        AnswerNotStored
            If there is one, and it cannot be stored.
        SetAside
            If it is clear before the request that the store cannot be written, or a video cannot be read.
        """
        key = self.key(what, system, schema)
        received: list[ChatAnswer] = []

        def make() -> StoredAnswer:
            made = parts()
            user, fps = made if isinstance(made, tuple) else (made, None)
            answer = ask(self.client, self.model, system, user, schema, fps)
            received.append(answer)
            self.read(answer.text, schema, check, answer)
            return self._stored(key, answer, notes() if notes is not None else {})

        try:
            stored, made = self.answers.get_or_make(key, make)
        except SetAside as problem:
            if not received:
                raise
            raise AnswerNotStored(problem.reason, problem.message, usage_of(received[0])) from problem
        paid = received[0] if made else None
        value, found = self.read(stored.text, schema, check, paid)
        return JsonAnswer(
            value=value,
            found=", ".join(filter(None, (paid.found if paid else "", found))),
            stored=stored,
            reasoning=paid.reasoning if paid else "",
            usage=usage_of(paid) if paid else Usage(tries=0),
            calls=int(made),
        )

    def read(
        self, text: str, schema: Mapping[str, Any], check: Check | None, paid: ChatAnswer | None = None
    ) -> tuple[Any, str]:
        """Return the JSON value of a stored answer, and how it was found; see :func:`read`."""
        return read(text, paid, check, schema, self.model.answers)

    def keep(
        self,
        key: str,
        answer: ChatAnswer,
        schema: Mapping[str, Any],
        check: Check | None,
        notes: Mapping[str, Any],
    ) -> None:
        """Store an answer that did not come from :meth:`ask`, such as one from a batch.

        Raises
        ------
        NotJudged
            If it is none.
        SetAside
            If it cannot be stored.
        """
        whole = complete(answer, self.model.answers)

        def made() -> StoredAnswer:
            self.read(whole.text, schema, check, whole)
            return self._stored(key, whole, notes)

        self.answers.get_or_make(key, made)

    def _stored(self, key: str, answer: ChatAnswer, notes: Mapping[str, Any]) -> StoredAnswer:
        return StoredAnswer(
            key=key,
            text=answer.text,
            model=answer.model or self.model.model,
            tokens_in=answer.tokens_in or 0,
            tokens_out=answer.tokens_out or 0,
            cached_in=answer.cached_in,
            written_in=answer.written_in,
            seconds=answer.seconds,
            tries=answer.tries,
            **notes,
        )


def usage_of_kept(answer: StoredAnswer) -> ModelUsage:
    """Return the cost of a stored answer; what was not counted is estimated."""
    guess = usage_of(ChatAnswer(text=answer.text))
    return ModelUsage(
        answer.model,
        tokens_in=answer.tokens_in,
        tokens_out=answer.tokens_out,
        cached_in=answer.cached_in,
        written_in=answer.written_in,
        uncounted=int(not (answer.tokens_in and answer.tokens_out)),
        estimated_in=0 if answer.tokens_in else answer.expected_in,
        estimated_out=0 if answer.tokens_out else guess.estimated_out,
    )


def read(
    text: str,
    answer: ChatAnswer | None,
    check: Check | None,
    schema: Mapping[str, Any],
    form: AnswerForm = "tolerant",
) -> tuple[Any, str]:
    """Return the JSON value of an answer, converted by `check`, and how it was found.

    Raises
    ------
    NotJudged
        `not_understood` if it is not JSON, or what `check` raises, with the cost of the answer.
    """
    whole = answer or ChatAnswer(text=text)
    try:
        value, found, _ = value_in(text, schema, form)
    except ValueError as problem:
        if not isinstance(check, CheckWithText) or form != "tolerant":
            raise not_understood(whole, "not JSON, or has several objects or a key twice") from problem
        try:
            value, found = check.from_text(text), check.form
        except ValueError as other:
            raise not_understood(whole, f"not JSON, and {other}") from other
    if check is None:
        return value, found
    try:
        return check(value), found
    except NotJudged as problem:
        raise NotJudged(
            problem.failure,
            problem.message,
            raw=text,
            finish_reason=whole.finish_reason or "",
            usage=usage_of(whole),
        ) from problem
