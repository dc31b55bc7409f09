"""Make prompts from videos: drafts first, then complete prompts from the texts that a person approved."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from storage_schemas.errors import SetAside, UserInputError
from storage_schemas.locks import holder, only_one
from tasks.extras.locot2v.askers import roles_of
from tasks.extras.prompt_suite.drafts import Drafting
from tasks.extras.prompt_suite.project import Draft, Project
from tasks.extras.prompt_suite.prompt_completion import finished_prompt
from tasks.extras.prompt_suite.requests import Attempts, Paying, Stopped
from tasks.extras.prompt_suite.settings import PromptSuiteSettings
from tasks.extras.prompt_suite.videos import SourceVideo
from tasks.llm.conversation import DryRunAsker, LiveAsker, Roles
from tasks.llm.limits import Limits, Spending
from tasks.llm.meter import Meter
from tasks.llm.usage import Estimate, NotJudged, Prices, load_prices
from tasks.scoring.setup import Setup
from tasks.scoring.suites.base import SuitePrompt
from tasks.scoring.suites.file_video import FrameRate, OpenVideos
from tasks.scoring.suites.shown_videos import SampledVideo

log = logging.getLogger(__name__)

State = Literal["waiting", "left_out", "ready", "failed", "unfinished"]


@dataclass(frozen=True)
class Made:
    """Result for one video.

    Parameters
    ----------
    state
        ``waiting`` for a person, ``left_out`` by one, ``ready``, ``failed``, or ``unfinished`` if the run
        ended first: the next run continues.
    failure, message
        Why there is no prompt.
    calls, tokens_in, tokens_out, usd
        Cost of this run; kept answers are free. `usd` is None if a model has no price.
    """

    prompt_id: str
    state: State
    prompt: SuitePrompt | None = None
    failure: str = ""
    message: str = ""
    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    usd: float | None = 0.0


@dataclass(frozen=True)
class Expected:
    """Estimated cost of prompts; `usd` is None if a model has no price."""

    videos: int
    calls: int
    images: int
    tokens_in: int
    tokens_out: int
    usd: float | None


@dataclass(frozen=True)
class Maker:
    """Makes prompts.

    Parameters
    ----------
    project
        The folder of drafts and prompts.
    without_review
        Whether drafts without a review count as approved.
    limits
        Maximum dollars and tokens of one run.
    prices
        Prices of tokens.
    """

    setup: Setup
    settings: PromptSuiteSettings
    project: Project
    without_review: bool = False
    limits: Limits = field(default_factory=Limits)
    prices: Prices = field(default_factory=load_prices)
    roles: Roles = field(init=False)
    videos: OpenVideos = field(init=False)

    def __post_init__(self) -> None:
        # the class is frozen
        object.__setattr__(self, "roles", roles_of(self.setup, self.settings.of_suite()))
        object.__setattr__(self, "videos", OpenVideos(FrameRate()))

    def run(
        self,
        videos: Sequence[SourceVideo],
        concurrency: int = 4,
        step: Callable[[int, int, str], None] = lambda done, total, note: None,
    ) -> list[Made]:
        """Make prompts as far as possible, and write those that are ready; nothing is paid for twice.

        Parameters
        ----------
        concurrency
            Number of videos processed concurrently.
        step
            Called with (done, total, prompt id and state) after each.

        Raises
        ------
        UserInputError
            If another run uses the same folder.
        PrerequisiteError
            If a model's server is not in the profile.
        StoreError
            If a draft or a review cannot be read.
        """
        for role in ("multimodal", "language"):
            self.roles.calls(role)
        # a damaged file is reported before anything is paid
        self.project.drafts()
        self.project.reviews()
        self.project.prepare()
        lock = self.project.folder / ".making"
        with only_one(lock) as is_ours:
            if not is_ours:
                raise UserInputError(
                    f"{holder(lock)} makes prompts in {self.project.folder}: wait until it has finished"
                )
            spending = Spending(self.project.folder / ".spending.json", self.limits)
            # left by a killed run; limits apply to a single run
            spending.remove()
            meter = Meter("prompts", spending, self.prices)
            results: list[Made] = []
            try:
                with ThreadPoolExecutor(max_workers=concurrency) as threads:
                    try:
                        for made in threads.map(partial(self.make, meter=meter), videos):
                            results.append(made)
                            step(len(results), len(videos), f"{made.prompt_id} {made.state}")
                    except BaseException:
                        # wait only for requests in flight, which are paid for
                        meter.stop("the run was ended")
                        threads.shutdown(cancel_futures=True)
                        raise
            finally:
                spending.remove()
            self.project.keep_prompts([made.prompt for made in results if made.prompt is not None])
        return results

    def make(self, video: SourceVideo, meter: Meter) -> Made:
        """Make one prompt as far as possible."""
        asking = LiveAsker(self.roles)
        paying = Paying(asking, meter)
        state: State = "failed"
        prompt, failure, message = None, "", ""
        try:
            film = SampledVideo(video.digest, self.videos.open(video.path))
            attempts = Attempts(paying, self.settings)
            draft = self._draft(attempts, video, film)
            base, state = self._approved(draft)
            if base is not None:
                prompt = finished_prompt(attempts, video.prompt_id, video.theme, base, film)
        except Stopped as problem:
            state, failure, message = "unfinished", problem.failure.value, problem.message
        except NotJudged as problem:
            state, failure, message = "failed", problem.failure.value, problem.message
        except SetAside as problem:
            state, failure, message = "failed", problem.reason.value, problem.message
        if asking.calls or asking.conversation:
            self.project.keep_conversation(video.prompt_id, _details(asking))
        tokens_in, tokens_out = asking.usage().tokens()
        return Made(
            prompt_id=video.prompt_id,
            state=state,
            prompt=prompt,
            failure=failure,
            message=message,
            calls=asking.calls,
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            usd=paying.usd,
        )

    def estimate(self, videos: Sequence[SourceVideo]) -> Expected:
        """Return the estimated cost of completing all prompts, with answers of typical length.

        No request is made. A video that cannot be read, or whose kept answers are invalid, counts up to that
        point.
        """
        estimates: list[Estimate] = []
        paid: set[str] = set()
        for video in videos:
            own = self._estimates(video)
            # a video that occurs twice is paid for once
            estimates += [one for one in own if one.once not in paid]
            paid |= {one.once for one in own}
        return Expected(
            videos=len(videos),
            calls=sum(one.requests for one in estimates),
            images=sum(one.images for one in estimates),
            tokens_in=sum(one.tokens_in for one in estimates),
            tokens_out=sum(one.tokens_out for one in estimates),
            usd=self.prices.of(estimates),
        )

    def _estimates(self, video: SourceVideo) -> list[Estimate]:
        asker = DryRunAsker(self.roles)
        try:
            attempts = Attempts(asker, self.settings)
            film = SampledVideo(video.digest, self.videos.open(video.path))
            draft = self.project.draft(video.prompt_id)
            text = Drafting(self.settings).versions(attempts, film)[-1].text
            review = None if draft is None else self.project.approved(draft)
            if review is None or review.verdict == "accepted":
                base = text if review is None else review.text
                finished_prompt(attempts, video.prompt_id, video.theme, base, film)
        except (NotJudged, SetAside) as problem:
            log.info("%s cannot be estimated completely: %s", video.prompt_id, problem)
        return asker.estimates

    def _draft(self, attempts: Attempts, video: SourceVideo, film: SampledVideo) -> Draft:
        draft = Draft(video=video, versions=tuple(Drafting(self.settings).versions(attempts, film)))
        if self.project.draft(video.prompt_id) != draft:
            self.project.keep_draft(draft)
        return draft

    def _approved(self, draft: Draft) -> tuple[str | None, State]:
        review = self.project.approved(draft)
        if review is None:
            return (draft.text, "ready") if self.without_review else (None, "waiting")
        return (None, "left_out") if review.verdict == "left_out" else (review.text, "ready")


def _details(asking: LiveAsker) -> dict[str, Any]:
    return {"model": asking.model, **asking.details()}
