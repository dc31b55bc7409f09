"""Caption analysis by a language model behind an OpenAI-compatible server, as in the paper.

The paper uses Qwen3-8B with thinking, served by vLLM with a JSON Schema (SLVMEval, appendix E.1). An
invalid answer is never repaired: the model gets the reason and is asked again, with another seed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, ClassVar

from pydantic import Field, model_validator

from storage_schemas.analysis import CaptionAnalysis, CaptionAnswer
from storage_schemas.errors import PrerequisiteError
from storage_schemas.ids import digest_text
from storage_schemas.model import Frozen
from storage_schemas.names import Name
from storage_schemas.provenance import utc_now
from storage_schemas.rng import derived_seed
from tasks.captions.analyser import AnswerJournal, CaptionAnalyser, NotAnalysed
from tasks.captions.answer_schema import analysis_schema, read_analysis
from tasks.llm.answers import has_text
from tasks.llm.exchange import ChatAnswer, ChatRequest, Sampling
from tasks.llm.json_answers import AnswerForm
from tasks.llm.prompt_files import filled, prompt_text
from tasks.llm.questions import Question, Unanswered, as_data, ask_questions, whole_text, without_marks
from tasks.llm.servers import Servers, check_server

#: The paper's model, and the revision pinned by this project.
MODEL, REVISION = "Qwen/Qwen3-8B", "b968826d9c46dd6066d109eabc6255188de91218"

_ADVICE = "change that parameter of caption_analysis, or use a server that supports it (vLLM does)"
# Maximum characters of an invalid answer that are shown to the model again.
_SHOWN = 4000
_SENTENCE_END = re.compile(r"[.!?](?=\s)|[。！？]")
_SPACE = re.compile(r"\s")


def default_prompt() -> str:
    """Return the default instruction."""
    return prompt_text("caption-analysis/caption_analysis")


def _default_again() -> str:
    return prompt_text("caption-analysis/caption_analysis_again")


class ThinkingModel(Frozen):
    """A language model that reads captions, with the paper's settings (SLVMEval, appendix E.1).

    Parameters
    ----------
    model, revision
        The model and revision that the server is expected to serve. Servers do not report the revision.
    server
        The server's name in ``[model_servers]`` of the profile.
    thinking
        Whether the model reasons before it answers (paper: yes).
    temperature, top_p, top_k, min_p, repetition_penalty
        The paper's values.
    tries
        Maximum attempts per question until an answer is valid.
    most_characters
        Longer texts are shortened to this limit (the paper's captions have about 1,000).
    most_tokens
        Maximum tokens of an answer, including its reasoning.
    answers
        ``tolerant``: an answer that holds exactly one JSON object is understood; ``strict``: it has to be
        that object and nothing else.
    """

    model: str = Field(default=MODEL, min_length=1)
    revision: str | None = None
    server: Name = "caption-analysis"
    thinking: bool = True
    temperature: float = Field(default=0.6, ge=0, le=2)
    top_p: float = Field(default=0.95, gt=0, le=1)
    top_k: int = Field(default=20, ge=-1)
    min_p: float = Field(default=0.0, ge=0, le=1)
    repetition_penalty: float = Field(default=1.2, gt=0, le=2)
    tries: int = Field(default=3, ge=1, le=10)
    most_characters: int = Field(default=16_000, ge=100)
    most_tokens: int = Field(default=8192, ge=64)
    answers: AnswerForm = "tolerant"

    @model_validator(mode="before")
    @classmethod
    def _pinned(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("model", MODEL) == MODEL:
            return {"revision": REVISION, **values}
        return values

    def request(
        self, messages: Sequence[dict[str, Any]], answer_schema: dict[str, Any], seed: int
    ) -> ChatRequest:
        """Return a request with these settings."""
        return ChatRequest(
            messages=tuple(messages),
            answer_schema=answer_schema,
            sampling=Sampling(
                temperature=self.temperature, top_p=self.top_p, seed=seed, most_tokens=self.most_tokens
            ),
            extra_body={
                "top_k": self.top_k,
                "min_p": self.min_p,
                "repetition_penalty": self.repetition_penalty,
                "chat_template_kwargs": {"enable_thinking": self.thinking},
            },
        )


class LlmParameters(ThinkingModel):
    """Parameters of the analyser ``llm``; all but `server` are in the id of an analysis.

    Parameters
    ----------
    prompt, again
        The instruction, and what follows an answer that cannot be used, with ``{reason}``.
    most_items, most_letters
        Maximum length of a list and of a text in an analysis.
    """

    prompt: str = Field(default_factory=default_prompt, min_length=1)
    again: str = Field(default_factory=_default_again, min_length=1)
    most_items: int = Field(default=50, ge=1)
    most_letters: int = Field(default=120, ge=1)


class LlmAnalyser(CaptionAnalyser):
    """Analyses captions by asking a language model.

    Parameters
    ----------
    parameters
        Model, instruction and sampling settings.
    servers
        Servers by name, used when a request is made.
    """

    name: ClassVar[str] = "llm"
    version: ClassVar[int] = 1
    packages: ClassVar[tuple[str, ...]] = ("openai",)
    asks_server: ClassVar[bool] = True

    def __init__(self, parameters: LlmParameters, servers: Servers | None = None) -> None:
        self._parameters = parameters
        self._servers = servers or Servers()

    def consumes(self) -> dict[str, Any]:
        """Return name and version, the model, and all request settings."""
        # analyses from before `answers` existed keep their ids
        left_out = {"server"} if self._parameters.answers == "strict" else {"server", "answers"}
        return {**super().consumes(), **self._parameters.model_dump(mode="json", exclude=left_out)}

    def check(self) -> None:
        """Check that the client library is installed; no server is contacted.

        Raises
        ------
        PrerequisiteError
            If it is not installed.
        """
        if find_spec("openai") is None:
            raise PrerequisiteError("caption analysis by a language model needs openai: pip install openai")

    def check_server(self) -> None:
        """Check once that the server is available and has the model.

        Raises
        ------
        PrerequisiteError
            If not; the message says what to do.
        """
        check_server(self._servers.find(self._parameters.server, self._parameters.model))

    def analyse(
        self, captions: Sequence[str], journal: AnswerJournal | None = None
    ) -> list[CaptionAnalysis | NotAnalysed]:
        """Analyse all captions without an answer in the journal, concurrently; equal captions once.

        Raises
        ------
        PrerequisiteError
            If the server cannot be used; answers received before are in the journal.
        """
        answers = {} if journal is None else journal.read()
        texts = {
            digest_text(caption): shortened(caption, self._parameters.most_characters) for caption in captions
        }
        questions = [
            _CaptionQuestion(digest, text, self._parameters)
            for digest, text in texts.items()
            if text and digest not in answers
        ]
        failed: dict[str, NotAnalysed] = {}

        def on_result(question: _CaptionQuestion, result: CaptionAnswer | Unanswered) -> None:
            if isinstance(result, CaptionAnswer):
                answers[question.digest] = result
                if journal is not None:
                    journal.append(result)
            else:
                failed[question.digest] = NotAnalysed(**result.model_dump())

        if questions:
            server = self._servers.find(self._parameters.server, self._parameters.model)
            ask_questions(
                server, questions, self._parameters.tries, "captions", "analysis", on_result, _ADVICE
            )
        results: list[CaptionAnalysis | NotAnalysed] = []
        for caption in captions:
            digest = digest_text(caption)
            if not texts[digest]:
                results.append(CaptionAnalysis())
            else:
                results.append(failed[digest] if digest in failed else answers[digest].analysis)
        return results


#: Where a user's prompt has the caption, as it is; without it the caption is a message of its own, as JSON.
_CAPTION = "{caption}"
#: The beginning of tokens such as ``<|im_end|>``, which would end the message.
_MARK = re.compile(r"<\|")


class _CaptionQuestion(Question[CaptionAnswer]):
    """One caption until an answer fits."""

    def __init__(self, digest: str, text: str, parameters: LlmParameters) -> None:
        super().__init__()
        self.digest = digest
        self._text = text
        self._parameters = parameters

    def request(self) -> ChatRequest:
        """Return the next request: the caption, and the reason for rejecting the last answer."""
        parameters = self._parameters
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": parameters.prompt},
            {"role": "user", "content": as_data(caption=self._text)},
        ]
        if _CAPTION in parameters.prompt:
            # the paper's template has it in the text (E.1)
            content = parameters.prompt.replace(_CAPTION, _MARK.sub("< |", self._text))
            messages = [{"role": "user", "content": content}]
        if self.unfit:
            if last := self.answers[-1].text[:_SHOWN].strip():
                messages.append({"role": "assistant", "content": without_marks(last)})
            reason = without_marks(self.unfit[-1])
            messages.append({"role": "user", "content": filled(parameters.again, reason=reason)})
        return parameters.request(
            messages,
            analysis_schema(parameters.most_items, parameters.most_letters),
            # from caption and attempt alone, so that results do not depend on the order of answers
            derived_seed("caption-analysis", self.digest, len(self.unfit)) % 2**31,
        )

    def accepted(self, answer: ChatAnswer) -> CaptionAnswer:
        """Return the analysis that an answer is, with what all answers took."""
        parameters = self._parameters
        thoughts, text = whole_text(answer, parameters.most_tokens, parameters.answers)
        return CaptionAnswer(
            caption=self.digest,
            analysis=read_analysis(text, parameters.most_items, parameters.most_letters, parameters.answers),
            text=answer.text,
            reasoning=thoughts,
            finish_reason=answer.finish_reason,
            model=answer.model,
            characters=len(self._text),
            tokens_in=_sum([each.tokens_in for each in self.answers]),
            tokens_out=_sum([each.tokens_out for each in self.answers]),
            seconds=round(sum(each.seconds for each in self.answers), 3),
            tries=len(self.unfit) + 1,
            calls=sum(each.tries for each in self.answers),
            refused=tuple(self.unfit),
            at=utc_now(),
        )


def _sum(counts: Sequence[int | None]) -> int | None:
    counts_given = [count for count in counts if count is not None]
    return sum(counts_given) if counts_given else None


def shortened(caption: str, most: int) -> str:
    """Return the caption, truncated to whole sentences or at least whole words if too long."""
    # lone surrogates, which JSON can represent, cannot be sent
    text = caption.encode("utf-8", "replace").decode("utf-8").strip()
    if len(text) <= most:
        return text if has_text(text) else ""
    cut = text[:most]
    for end in (_SENTENCE_END, _SPACE):
        ends = [match.end() for match in end.finditer(cut)]
        # ending that early would lose most of the caption
        if ends and ends[-1] > most // 2:
            return cut[: ends[-1]].strip()
    return cut
