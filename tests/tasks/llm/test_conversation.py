"""Conversations: steps in roles, answered by a real server or assumed for an estimate."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from storage_schemas.errors import PrerequisiteError, Reason
from storage_schemas.ids import digest_text
from storage_schemas.judgements import Failure
from storage_schemas.model import ModelServer
from tasks.llm.answer_store import AnswerStore
from tasks.llm.answers import objects, score_in
from tasks.llm.conversation import DryRunAsker, LiveAsker, Roles, Step, dry_run
from tasks.llm.requests import AnswerNotStored, Parts
from tasks.llm.servers import Servers
from tasks.llm.usage import Estimate, ModelUsage, NotJudged
from tasks.llm.vision_models import VlmModel
from tests.storage_schemas.full_disk import fill
from tests.tiny_models.faulty_server import FaultyServer, Reply

SCORE = objects({"score": {"type": "integer"}})
STEP = Step(
    "rate", "language", "Rate it.", "A text.", SCORE, {"score": 3}, lambda value: score_in(value, 1, 5)
)


def model(name: str, **settings: Any) -> VlmModel:
    limits = {"context_tokens": 2000, "answer_tokens": 100, "most_images": 4}
    return VlmModel(model=name, server="s", **{**limits, **settings})


MODELS = {"language": model("reads"), "multimodal": model("sees")}


def roles(
    folder: Path, server: FaultyServer | None, models: Mapping[str, VlmModel] = MODELS, **settings: Any
) -> Roles:
    there = {} if server is None else {"url": server.url, "patience_s": 0.1, **settings}
    named = {name: ModelServer(**there) for name in "st" if there}
    return Roles("talk", models, Servers(named), AnswerStore(folder))


def served(*replies: Reply | int) -> FaultyServer:
    """Return a server that gives scores, or other replies, in turn."""
    plan = [Reply(json.dumps({"score": one})) if isinstance(one, int) else one for one in replies]
    return FaultyServer(plan, models=("reads", "sees"))


@dataclass(frozen=True)
class Photo:
    """An exhibit that shows one image."""

    name: str = "a"
    frames: int = 8
    images: int = 1
    tokens: int = 200

    def fit(self, model: VlmModel, text_tokens: int) -> Photo:
        if text_tokens + self.tokens > model.request_tokens():
            raise NotJudged(Failure.CONTEXT_TOO_LONG, "no image fits")
        return self

    def key(self) -> Mapping[str, Any]:
        return {"photo": self.name}

    def parts(self) -> Parts:
        return [{"type": "text", "text": f"<photo {self.name}>"}]

    def details(self) -> dict[str, Any]:
        return {"photo": self.name}


LOOK = replace(STEP, name="look", role="multimodal", exhibit=Photo())
LONG = "word " * 3000


def failure_of(asker: LiveAsker | DryRunAsker, step: Step) -> NotJudged:
    with pytest.raises(NotJudged) as problem:
        asker.ask(step)
    return problem.value


def test_steps_are_sent_to_the_models_of_their_roles_and_noted_with_answers_and_cost(tmp_path: Path) -> None:
    with served(4) as server:
        asker = LiveAsker(roles(tmp_path, server))
        assert asker.ask(STEP) == 4
        assert (asker.model, asker.usage().others) == ("reads", ())
        assert asker.ask(LOOK) == 4
    # what is sent
    first, second = (seen.body for seen in server.seen)
    assert (first["model"], second["model"]) == ("reads", "sees")
    text = {"type": "text", "text": "A text."}
    assert first["messages"] == [
        {"role": "system", "content": "Rate it."},
        {"role": "user", "content": [text]},
    ]
    assert second["messages"][1]["content"] == [text, {"type": "text", "text": "<photo a>"}]
    assert first["response_format"]["json_schema"]["schema"] == SCORE
    # what is noted
    output, seen = asker.details()["conversation"]
    assert output.pop("tokens")["expected_in"] >= MODELS["language"].text_tokens("Rate it.A text.")
    rate = {"step": "rate", "model": "reads", "system": digest_text("Rate it."), "answer": 4, "kept": False}
    assert output == rate
    assert (seen["step"], seen["model"]) == ("look", "sees")
    assert (seen["tokens"]["in"], seen["tokens"]["out"]) == (100, 20)
    assert asker.details()["frames"] == {"photo": "a"}
    # tokens of further models stand apart from those of the model that saw
    usage = asker.usage()
    assert asker.model == "sees"
    assert (usage.tokens_in, usage.tokens_out, usage.frames, usage.tries) == (100, 20, 8, 2)
    assert usage.others == (ModelUsage("reads", 100, 20),)


def test_only_what_an_answer_depends_on_asks_again(tmp_path: Path) -> None:
    steps: list[dict[str, Any]] = [
        {"text": "Another text."},
        {"what": {"repeat": 1}},
        {"system": "Rate it well."},
        {"schema": {**SCORE, "additionalProperties": True}},
        {"exhibit": Photo("b")},
        {"role": "language"},
    ]
    with served(4) as server:

        def requests(step: Step, **model: Any) -> int:
            models = {role: one.model_copy(update=model) for role, one in MODELS.items()}
            LiveAsker(roles(tmp_path, server, models)).ask(step)
            return len(server.seen)

        assert requests(LOOK) == 1
        for count, change in enumerate(steps, 2):
            assert requests(replace(LOOK, **change)) == count, change
        assert requests(LOOK, temperature=0.5) == 8
        assert requests(replace(LOOK, name="other", assumed={"score": 1})) == 8
        for free in ({"server": "t"}, {"thinking_tokens": 50}, {"schema_tokens": 9}):
            assert requests(LOOK, **free) == 8, free
        # conversations of two names do not share answers
        LiveAsker(replace(roles(tmp_path, server), name="other")).ask(LOOK)
        assert len(server.seen) == 9


def test_a_kept_answer_is_noted_as_such_and_costs_nothing(tmp_path: Path) -> None:
    with served(4) as server:
        LiveAsker(roles(tmp_path, server)).ask(STEP)
        again = LiveAsker(roles(tmp_path, server))
        assert again.ask(STEP) == 4
        assert len(server.seen) == 1
    assert [one["kept"] for one in again.conversation] == [True]
    assert (again.calls, again.usage().tokens(), again.model) == (0, (0, 0), "reads")


@pytest.mark.parametrize("raw", ["Four.", '{"score": 9}', '{"score": null}', '{"score": 1, "score": 2}'])
def test_a_failed_answer_stays_in_the_conversation_and_is_asked_for_again(tmp_path: Path, raw: str) -> None:
    with served(4, Reply(raw), 2) as server:
        asker = LiveAsker(roles(tmp_path, server))
        asker.ask(STEP)
        failed = failure_of(asker, LOOK)
        assert LiveAsker(roles(tmp_path, server)).ask(LOOK) == 2
    assert (failed.failure, failed.raw) == (Failure.NOT_UNDERSTOOD, raw)
    assert failed.message.startswith("look: ")
    first, last = failed.details["conversation"]
    assert (first["step"], first["answer"], "failure" in first) == ("rate", 4, False)
    assert (last["step"], last["answer"], last["failure"]) == ("look", raw, "not_understood")
    # all that was paid, each model by its name
    assert failed.calls == 2
    assert (failed.usage.tokens_in, failed.usage.tokens_out) == (0, 0)
    assert set(failed.usage.others) == {ModelUsage("reads", 100, 20), ModelUsage("sees", 100, 20)}


def test_a_refused_request_has_no_raw_text_and_cost_nothing(tmp_path: Path) -> None:
    with served(Reply(status=400, text="I will not")) as server:
        failed = failure_of(LiveAsker(roles(tmp_path, server)), STEP)
    assert failed.failure is Failure.REFUSED
    assert "rate: " in failed.message
    assert "I will not" in failed.message
    assert (failed.details["conversation"], failed.calls, failed.usage.tokens()) == ([], 0, (0, 0))


def test_answer_that_cannot_be_stored_is_paid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(4) as server:
        asker = LiveAsker(roles(tmp_path, server))
        with monkeypatch.context() as patched:
            fill(patched, tmp_path)
            with pytest.raises(AnswerNotStored, match="no space left below") as problem:
                asker.ask(STEP)
        assert (asker.calls, asker.usage().tokens()) == (1, (100, 20))
        assert (problem.value.reason, problem.value.usage.tokens()) == (Reason.OUT_OF_SPACE, (100, 20))
        assert LiveAsker(roles(tmp_path, server)).ask(STEP) == 4
        assert len(server.seen) == 2


def test_a_request_longer_than_the_context_is_not_sent(tmp_path: Path) -> None:
    with served(4) as server:
        made = roles(tmp_path, server)
        for step in (STEP, LOOK):
            for asker in (LiveAsker(made), DryRunAsker(made)):
                failed = failure_of(asker, replace(step, text=LONG))
                assert failed.failure is Failure.CONTEXT_TOO_LONG
        assert server.seen == []


def test_servers_are_checked_by_role(tmp_path: Path) -> None:
    with FaultyServer(models=("reads",)) as server:
        made = roles(tmp_path, server, concurrency=3)
        assert made.concurrency("language") == 3, "a role allows as many requests at once as its server"
        made.check(["language", "language"])
        assert server.listed == 1
        with pytest.raises(PrerequisiteError, match="it has reads"):
            made.check(["multimodal"])
    with pytest.raises(PrerequisiteError):
        made.check(["language"])
    with pytest.raises(PrerequisiteError, match="model_servers"):
        LiveAsker(roles(tmp_path, None)).ask(STEP)


def test_a_dry_run_sends_nothing_and_assumes_what_is_not_kept(tmp_path: Path) -> None:
    with served(4) as server:
        LiveAsker(roles(tmp_path, server)).ask(STEP)
        asker = DryRunAsker(roles(tmp_path, server))
        assert asker.ask(STEP) == 4, "a kept answer is taken as it is"
        assert asker.estimates == []
        assert asker.ask(LOOK) == 3, "the assumed answer is checked as a real one"
        assert len(server.seen) == 1
    (estimate,) = asker.estimates
    assert (estimate.model, estimate.images, estimate.requests) == ("sees", 1, 1)
    assert estimate.tokens_in > 200
    assert estimate.tokens_out > 0


def test_work_that_rests_on_assumed_answers_is_not_shared(tmp_path: Path) -> None:
    def estimates(*steps: Step) -> list[Estimate]:
        asker = DryRunAsker(roles(tmp_path, server))
        for step in steps:
            asker.ask(step)
        return asker.estimates

    with served(4) as server:
        other = replace(LOOK, exhibit=Photo("b"))
        # a text alone is the same request for both videos, and paid for once
        assert estimates(STEP)[0].once == estimates(STEP)[0].once != ""
        # after an assumed answer it may be another text for each
        assert estimates(LOOK, STEP)[1].once != estimates(other, STEP)[1].once
        # what is shown names itself
        assert estimates(STEP, LOOK)[1].once == estimates(LOOK)[0].once


def test_a_dry_run_counts_the_requests_before_a_step_that_fails(tmp_path: Path) -> None:
    def talk(asker: DryRunAsker) -> None:
        for step in (STEP, replace(STEP, text=LONG), LOOK):
            asker.ask(step)

    with served(4) as server:
        estimates = dry_run(DryRunAsker(roles(tmp_path, server)), talk)
        assert server.seen == []
    assert [one.model for one in estimates] == ["reads"]
