"""Requests to language models whose answers are kept at once, so that none is paid for twice."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from storage_schemas.errors import Reason, SetAside
from storage_schemas.ids import digest_value
from tasks.llm.answer_store import AnswerStore, StoredAnswer
from tasks.llm.answers import ask, not_understood, once, usage_of
from tasks.llm.chat import ChatAnswer, ChatClient
from tasks.llm.usage import NotJudged, Usage
from tasks.llm.vision_models import VlmModel

#: Parts of a user's message: texts and images.
Parts = list[dict[str, Any]]
#: Takes the JSON value of an answer and returns what stands for it; raises NotJudged if it does not fit.
Check = Callable[[Any], Any]


class NotKept(SetAside):
    """An answer that was paid for and cannot be kept: the store is full or cannot be written.

    Parameters
    ----------
    usage
        What it took.
    """

    def __init__(self, reason: Reason, message: str, usage: Usage | None = None) -> None:
        super().__init__(reason, message)
        self.usage = usage or Usage()


@dataclass(frozen=True)
class JsonAnswer:
    """An answer: its JSON value, how it is kept, and what it took now; nothing where it was kept before."""

    value: Any
    kept: StoredAnswer
    reasoning: str = ""
    usage: Usage = field(default_factory=Usage)
    calls: int = 0


@dataclass
class Calls:
    """Asks one model with one sampling.

    Parameters
    ----------
    model, client
        The model, and its server.
    kept
        Where answers are kept.
    """

    model: VlmModel
    client: ChatClient
    kept: AnswerStore

    def key(self, what: Mapping[str, Any], system: str, schema: Mapping[str, Any]) -> str:
        """Return the key under which an answer is kept, see :meth:`ask`."""
        return digest_value(
            {
                "asked": dict(what),
                "model": self.model.settings(),
                "system": system,
                "schema": dict(schema),
            }
        )

    def ask(
        self,
        what: Mapping[str, Any],
        system: str,
        parts: Callable[[], Parts],
        schema: Mapping[str, Any],
        check: Check | None = None,
        notes: Callable[[], Mapping[str, Any]] | None = None,
    ) -> JsonAnswer:
        """Return the JSON value that the model answers with.

        Parameters
        ----------
        what
            All that the answer depends on, JSON-able: texts, identities of videos, places of frames, repeat.
        parts
            Makes the user's message; called only where the answer is not kept yet.
        schema
            JSON Schema of the answer.
        check
            Called with the value before it is kept; what it raises (NotJudged) is raised here and the answer
            is not kept. Its return value takes the place of the value.
        notes
            Further fields of the :class:`StoredAnswer`; called after `parts`, where something is asked.

        Raises
        ------
        NotJudged
            If there is no answer.
        NotKept
            If there is one, and the store does not take it.
        SetAside
            If that is known before anybody is asked, or a video cannot be read.
        """
        key = self.key(what, system, schema)
        asked: list[ChatAnswer] = []

        def make() -> StoredAnswer:
            answer = ask(self.client, self.model, system, parts(), schema)
            asked.append(answer)
            read(answer.text, answer, check)
            return StoredAnswer(
                key=key,
                text=answer.text,
                model=answer.model or self.model.model,
                tokens_in=answer.tokens_in or 0,
                tokens_out=answer.tokens_out or 0,
                seconds=answer.seconds,
                tries=answer.tries,
                **(notes() if notes is not None else {}),
            )

        try:
            kept, made = self.kept.get_or_make(key, make)
        except SetAside as problem:
            if not asked:
                raise
            raise NotKept(problem.reason, problem.message, usage_of(asked[0])) from problem
        paid = asked[0] if made else None
        return JsonAnswer(
            value=read(kept.text, paid, check),
            kept=kept,
            reasoning=paid.reasoning if paid else "",
            usage=usage_of(paid) if paid else Usage(tries=0),
            calls=int(made),
        )


def read(text: str, answer: ChatAnswer | None, check: Check | None) -> Any:
    """Return the JSON value of an answer, checked.

    Raises
    ------
    NotJudged
        `not_understood` if it is no JSON, or what `check` raises, with what the answer took.
    """
    whole = answer or ChatAnswer(text=text)
    try:
        value = json.loads(text, object_pairs_hook=once)
    except (ValueError, RecursionError) as problem:
        raise not_understood(whole, "no JSON, or a key stands twice in it") from problem
    if check is None:
        return value
    try:
        return check(value)
    except NotJudged as problem:
        raise NotJudged(
            problem.failure,
            problem.message,
            raw=text,
            finish_reason=whole.finish_reason or "",
            usage=usage_of(whole),
        ) from problem
