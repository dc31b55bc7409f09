"""Chain of query: five requests lead to a score of one video against its prompt (Video-Bench, section 4.2).

A multimodal model describes the video without knowing the prompt. Two assistants, a language model, compare
description and prompt and ask questions. The multimodal model describes the video again and answers. It
scores from the frames, both descriptions and the questions with their answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from storage_schemas.judgements import Failure
from tasks.extras.video_bench.instructions import instruction, sections_of
from tasks.extras.video_bench.settings import VideoBenchSettings
from tasks.llm.answers import objects, score_in, text_in, texts_in
from tasks.llm.conversation import Asker, Role, Step
from tasks.llm.usage import NotJudged
from tasks.scoring.suites.base import Dimension
from tasks.scoring.suites.shown_videos import SampledVideo

_TEXT: Mapping[str, Any] = {"type": "string"}
_TEXTS: Mapping[str, Any] = {"type": "array", "items": _TEXT}
_DESCRIBED = objects({"caption": _TEXT, "description": _TEXT})
_ASKED = objects({"analysis": _TEXT, "questions": _TEXTS})
_ANSWERED = objects({"description": _TEXT, "answers": _TEXTS})
#: Assumed lengths of answers, used without measurements. 4.6 characters are a token.
_LONG, _SHORT = "word " * 250, "word " * 30
_NONE = "none"


class ChainOfQuery:
    """Scores videos in one alignment dimension.

    Raises
    ------
    UserInputError
        If its criteria are invalid.
    """

    def __init__(self, dimension: Dimension, settings: VideoBenchSettings) -> None:
        self.dimension, self._settings = dimension, settings
        sections = sections_of(dimension.name, settings.prompts)

        def told(step: str, **words: str) -> str:
            scale = {"low": f"{dimension.low:g}", "high": f"{dimension.high:g}"}
            return instruction(
                step, sections, settings.prompts, most=str(settings.questions), **scale, **words
            )

        self.systems: Mapping[str, str] = {
            "describe": told("describe"),
            "first assistant": told("ask_questions", assistant=sections["first assistant"]),
            "second assistant": told("ask_questions", assistant=sections["second assistant"]),
            "answer": told("answer"),
            "score": told("score"),
        }

    def score(self, asker: Asker, prompt: str, film: SampledVideo, repeat: int = 0) -> int:
        """Return the score of one video.

        Raises
        ------
        NotJudged
            If a step has no answer; the message names the step.
        """
        films = {"video": film}
        first = self._ask(asker, "describe", {}, films, repeat)
        known = {
            "Prompt of the video": prompt,
            "Caption": first["caption"],
            "Description": first["description"],
        }
        one = self._ask(asker, "first assistant", known, {}, repeat)["questions"]
        with_first = {**known, "Questions of another assistant": _numbered(one)}
        second = with_first if self._settings.chained_questions else known
        two = self._ask(asker, "second assistant", second, {}, repeat)["questions"]
        questions = [*one, *two]
        to_answer = {"Prompt of the video": prompt, "Questions of the assistants": _numbered(questions)}
        again = self._ask(asker, "answer", to_answer, films, repeat, len(questions))
        history = {
            "Prompt of the video": prompt,
            "First description, made without the prompt": f"{first['caption']}\n{first['description']}",
            "Questions of the assistants": _numbered(questions),
            "Second description, made with the prompt": again["description"],
            "Answers to the questions": _numbered(again["answers"]),
        }
        return int(self._ask(asker, "score", history, films, repeat)["score"])

    def _ask(
        self,
        asker: Asker,
        name: str,
        blocks: Mapping[str, str],
        films: Mapping[str, SampledVideo],
        repeat: int,
        questions: int = 0,
    ) -> Any:
        role: Role = "multimodal" if films else "language"
        schema, assumed = self._shape(name, questions)

        def check(value: Any) -> Any:
            return self._read(name, value, questions)

        text = "\n\n".join(f"{title}:\n{block}" for title, block in blocks.items())
        step = Step(
            name=name,
            role=role,
            system=self.systems[name],
            text=text or "Here is the video.",
            exhibit=self._settings.exhibit(self.dimension.name, films) if films else None,
            schema=schema,
            check=check,
            assumed=assumed,
            # a user may give both assistants the same instructions
            what={"step": name, "repeat": repeat},
        )
        return asker.ask(step)

    def _shape(self, name: str, questions: int) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Return an answer's schema, and an assumed answer."""
        if name == "describe":
            return _DESCRIBED, {"caption": _SHORT, "description": _LONG}
        if name == "answer":
            return _ANSWERED, {"description": _LONG, "answers": [_SHORT] * questions}
        if name == "score":
            scale = list(range(int(self.dimension.low), int(self.dimension.high) + 1))
            schema = objects(
                {"description": _TEXT, "reason": _TEXT, "score": {"type": "integer", "enum": scale}}
            )
            return schema, {"description": _LONG, "reason": _SHORT * 2, "score": scale[0]}
        return _ASKED, {"analysis": _SHORT * 2, "questions": [_SHORT] * self._settings.questions}

    def _read(self, name: str, value: Any, questions: int) -> dict[str, Any]:
        if name == "describe":
            return {"caption": text_in(value, "caption"), "description": text_in(value, "description")}
        if name == "answer":
            answers = texts_in(value, "answers")
            if questions and len(answers) != questions:
                raise NotJudged(
                    Failure.NOT_UNDERSTOOD, f"it has {len(answers)} answers to {questions} questions"
                )
            return {"description": text_in(value, "description"), "answers": answers[:questions]}
        if name == "score":
            score = score_in(value, int(self.dimension.low), int(self.dimension.high))
            reason, description = text_in(value, "reason"), text_in(value, "description")
            return {"description": description, "reason": reason, "score": score}
        proposed = texts_in(value, "questions")
        most = self._settings.questions
        # surplus questions are stored for readers, not asked
        return {
            "analysis": str(value.get("analysis", "")),
            "questions": proposed[:most],
            "not_asked": proposed[most:],
        }


def _numbered(texts: Sequence[str]) -> str:
    return "\n".join(f"{number}. {text}" for number, text in enumerate(texts, 1)) or _NONE
