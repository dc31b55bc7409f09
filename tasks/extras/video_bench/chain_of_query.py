"""Chain of query: five requests lead to a score of one video against its prompt (Video-Bench, section 4.2).

A multimodal model describes the video without knowing the prompt. Two assistants, a language model, compare
description and prompt and ask questions. The multimodal model describes the video again and answers. It
scores from the frames, both descriptions and the questions with their answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from storage_schemas.judgements import Failure
from tasks.extras.video_bench.headings import value_under_headings
from tasks.extras.video_bench.instructions import instruction, sections_of, whole_step
from tasks.extras.video_bench.settings import VideoBenchSettings
from tasks.llm.answers import objects, score_in, text_in, texts_in
from tasks.llm.conversation import Asker, Role, Step
from tasks.llm.prompt_files import filled, prompt_text
from tasks.llm.requests import CheckWithText
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
_ASSISTANTS = ("first assistant", "second assistant")
#: The message of each step, a prompt of the area ``video-bench``.
_USER: Mapping[str, str] = {
    "describe": "describe_user",
    **dict.fromkeys(_ASSISTANTS, "ask_questions_user"),
    "answer": "answer_user",
    "score": "score_user",
}
_KNOWN = "ask_questions_known"


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

        ours: Mapping[str, Callable[[], str]] = {
            "describe": lambda: told("describe"),
            "first assistant": lambda: told("ask_questions", assistant=sections["first assistant"]),
            "second assistant": lambda: told("ask_questions", assistant=sections["second assistant"]),
            "answer": lambda: told("answer"),
            "score": lambda: told("score"),
        }
        #: Text for the model at each step: the user's for this dimension, or ours.
        self.systems: Mapping[str, str] = {
            step: whole_step(step, dimension.name, settings.prompts) or made() for step, made in ours.items()
        }
        names = dict.fromkeys((*_USER.values(), _KNOWN, "no_questions"))
        self.messages = {
            **{name: prompt_text(f"video-bench/{name}", settings.prompts) for name in names},
            **settings.image_lines(dimension.name, "video_line"),
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
        values = {"prompt": prompt, "caption": first["caption"], "description": first["description"]}
        one = self._ask(asker, "first assistant", values, {}, repeat)["questions"]
        earlier = {"questions": self._numbered(one)} if self._settings.chained_questions else {}
        two = self._ask(asker, "second assistant", {**values, **earlier}, {}, repeat)["questions"]
        questions = [*one, *two]
        asked = {"prompt": prompt, "questions": self._numbered(questions)}
        again = self._ask(asker, "answer", asked, films, repeat, len(questions))
        history = {
            **values,
            **asked,
            "second_description": again["description"],
            "answers": self._numbered(again["answers"]),
        }
        return int(self._ask(asker, "score", history, films, repeat)["score"])

    def _ask(
        self,
        asker: Asker,
        name: str,
        words: Mapping[str, str],
        films: Mapping[str, SampledVideo],
        repeat: int,
        questions: int = 0,
    ) -> Any:
        role: Role = "multimodal" if films else "language"
        schema, assumed = self._shape(name, questions)

        def check(value: Any) -> Any:
            return self._read(name, value, questions)

        # only an assistant that sees another's questions gets some
        ends = [_KNOWN] if name in _ASSISTANTS and "questions" in words else []
        step = Step(
            name=name,
            role=role,
            system=self.systems[name],
            text="\n\n".join(filled(self.messages[one], **words) for one in (_USER[name], *ends)),
            exhibit=self._settings.exhibit(self.dimension.name, films, self.messages) if films else None,
            schema=schema,
            check=CheckWithText(check, value_under_headings, "under headings"),
            assumed=assumed,
            # a user may give both assistants the same instructions
            what={"step": name, "repeat": repeat},
        )
        return asker.ask(step)

    def _numbered(self, texts: Sequence[str]) -> str:
        lines = (f"{number}. {text}" for number, text in enumerate(texts, 1))
        return "\n".join(lines) or self.messages["no_questions"]

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
