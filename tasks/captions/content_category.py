"""Content categories of sources by a language model, from their titles and captions (SLVMEval, appendix D).

The paper counts videos in 15 categories (figure 8), and does not say how they were assigned. Its data set is
made of YouTube's videos, whose owners choose among 15 categories.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pydantic import Field

from storage_schemas.ids import digest_value
from storage_schemas.rng import derived_seed
from storage_schemas.source import Source
from tasks.captions.llm import ThinkingModel, shortened
from tasks.llm.answers import UnusableAnswer, objects
from tasks.llm.exchange import ChatAnswer, ChatRequest
from tasks.llm.json_answers import value_in
from tasks.llm.prompt_files import filled, prompt_text
from tasks.llm.questions import Question, Unanswered, as_data, ask_questions, whole_text
from tasks.llm.servers import Servers, check_server

#: The categories from which owners of YouTube videos choose.
CATEGORIES = (
    "Autos & Vehicles", "Comedy", "Education", "Entertainment", "Film & Animation", "Gaming", "Howto & Style",
    "Music", "News & Politics", "Nonprofits & Activism", "People & Blogs", "Pets & Animals",
    "Science & Technology", "Sports", "Travel & Events",
)  # fmt: skip

#: Its prompt.
CONTENT_CATEGORY = "content-categories/content_category"

_ADVICE = "use a server that supports it (vLLM does)"

#: Called once per source as answers arrive, with the category or why there is none, and the model.
OnCategory = Callable[[Source, str | Unanswered, str], None]


def default_prompt() -> str:
    """Return the default instruction."""
    return prompt_text(CONTENT_CATEGORY)


class CategoryParameters(ThinkingModel):
    """How a language model chooses content categories.

    Parameters
    ----------
    prompt
        The instruction; ``{categories}`` is replaced with the list.
    categories
        The categories to choose from.
    """

    prompt: str = Field(default_factory=default_prompt, min_length=1)
    categories: tuple[str, ...] = Field(default=CATEGORIES, min_length=2)


def ask_categories(
    sources: Sequence[Source], parameters: CategoryParameters, servers: Servers, on_category: OnCategory
) -> None:
    """Ask for the content category of each source, concurrently.

    Raises
    ------
    PrerequisiteError
        If the server cannot be used; `on_category` was called with every answer received before.
    """
    if not sources:
        return
    server = servers.find(parameters.server, parameters.model)
    check_server(server)

    def on_result(question: _CategoryQuestion, result: str | Unanswered) -> None:
        on_category(question.source, result, question.answers[-1].model or parameters.model)

    questions = [_CategoryQuestion(source, parameters) for source in sources]
    ask_questions(server, questions, parameters.tries, "sources", "category", on_result, _ADVICE)


def sampled_captions(source: Source, most: int) -> str:
    """Return a source's captions, one a line; every second, third, … if all exceed `most` characters."""
    captions = [clip.caption for clip in source.clips]
    for step in range(1, len(captions) + 1):
        text = "\n".join(captions[::step])
        if len(text) <= most:
            return text
    return shortened(captions[0], most)


class _CategoryQuestion(Question[str]):
    """One source until an answer is one of the categories."""

    def __init__(self, source: Source, parameters: CategoryParameters) -> None:
        super().__init__()
        self.source = source
        self._parameters = parameters
        self._schema = objects({"content_category": {"type": "string", "enum": list(parameters.categories)}})
        captions = sampled_captions(source, parameters.most_characters)
        self._data = as_data(title=source.title, captions=captions)

    def request(self) -> ChatRequest:
        """Return the next request; each attempt has another seed."""
        parameters = self._parameters
        listed = "\n".join(f"- {name}" for name in parameters.categories)
        messages = [
            {"role": "system", "content": filled(parameters.prompt, categories=listed)},
            {"role": "user", "content": self._data},
        ]
        seed = derived_seed("content-category", digest_value(self._data), len(self.unfit)) % 2**31
        return parameters.request(messages, self._schema, seed)

    def accepted(self, answer: ChatAnswer) -> str:
        """Return the category that an answer names."""
        _, text = whole_text(answer, self._parameters.most_tokens, self._parameters.answers)
        try:
            category = value_in(text, self._schema, self._parameters.answers).value["content_category"]
        except (ValueError, LookupError, TypeError) as problem:
            raise UnusableAnswer("it is not a JSON object with the key content_category") from problem
        if category not in self._parameters.categories:
            raise UnusableAnswer(f"{category!r:.80} is not one of the categories")
        return str(category)
