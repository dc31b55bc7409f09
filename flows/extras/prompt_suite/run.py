"""Make prompts from a user's own videos, as far as people have reviewed the drafts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import Field

from flows.extras.prompt_suite.parameters import PromptsParameters
from flows.parameters import RunOptions, full_or_none, required
from flows.score.options import settings_from_text
from infra.profile import Profile
from infra.progress import BuildProgress
from storage_schemas.model import Frozen
from tasks.extras.prompt_suite.maker import Expected, Made, Maker
from tasks.extras.prompt_suite.project import Project
from tasks.extras.prompt_suite.settings import PromptSuiteSettings, prompt_suite_settings
from tasks.extras.prompt_suite.videos import SourceVideo, load_videos
from tasks.llm.limits import Limits
from tasks.llm.usage import Prices, load_prices
from tasks.scoring.setup import Setup
from tasks.scoring.user_files import UnusedLine

_STAGE = "prompts"
_STATES = {
    "ready": "ready",
    "waiting": "waiting for a person",
    "left_out": "left out",
    "failed": "failed",
    "unfinished": "unfinished",
}


class PromptsOptions(RunOptions):
    """The videos to make prompts from, the settings, and the output folder.

    Parameters
    ----------
    videos
        A folder of videos, or a file listing them.
    out
        Folder of drafts, reviews and prompts.
    settings
        Settings of prompt making.
    without_review
        Accept drafts without review.
    concurrency
        Number of videos processed at once.
    dry_run
        Only estimate the cost.
    """

    videos: str
    out: str
    settings: PromptSuiteSettings
    without_review: bool = False
    concurrency: int = Field(default=4, ge=1)
    limits: Limits = Limits()
    prices: str | None = None
    dry_run: bool = False


def prompts_options(parameters: PromptsParameters, site: Profile) -> PromptsOptions:
    """Resolve the parameters into options.

    Raises
    ------
    UserInputError
        If a path is missing, or a value is invalid.
    """
    return PromptsOptions.at(
        site,
        videos=required("videos", parameters.videos),
        out=required("out", parameters.out),
        settings=prompt_suite_settings(settings_from_text(parameters.settings)),
        without_review=parameters.without_review,
        concurrency=parameters.concurrency,
        limits={"usd": parameters.max_dollars, "tokens": parameters.max_tokens},
        prices=full_or_none(parameters.prices),
        dry_run=parameters.dry_run,
    )


class PromptsResult(Frozen):
    """Result for each video; after a dry run, the estimated cost."""

    out: str
    made: tuple[Made, ...]
    left_out: tuple[UnusedLine, ...] = ()
    expected: Expected | None = None

    def in_words(self) -> str:
        """Return a summary in a sentence."""
        if self.expected is not None:
            would = self.expected
            dollars = "unknown dollars" if would.usd is None else f"{would.usd:.2f} dollars"
            return (
                f"{would.videos} videos would take at most {would.calls} calls with {would.images} images, "
                f"{would.tokens_in} tokens in and {would.tokens_out} out, {dollars}; no requests were made"
            )
        counts = Counter[str](one.state for one in self.made)
        states = ", ".join(f"{counts[state]} {words}" for state, words in _STATES.items() if counts[state])
        more = f", {len(self.left_out)} of unusable videos" if self.left_out else ""
        ended = next((f"; {one.message}" for one in self.made if one.state == "unfinished"), "")
        return f"Prompts in {self.out}: {states}{more}{ended}"

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each video."""
        rows = [
            {"prompt": one.prompt_id, "state": _STATES[one.state], "calls": one.calls, "why": one.message}
            for one in self.made
        ]
        unusable = [
            {"prompt": one.where, "state": "cannot be used", "calls": 0, "why": one.message}
            for one in self.left_out
        ]
        return rows + unusable


@dataclass
class PromptsRun:
    """One run; call :meth:`prepare`, then :meth:`run`."""

    options: PromptsOptions
    progress: BuildProgress
    prices: Prices = field(init=False)
    maker: Maker = field(init=False)
    videos: tuple[SourceVideo, ...] = field(init=False)
    left_out: tuple[UnusedLine, ...] = field(init=False)

    def prepare(self) -> None:
        """Read the prices and the list of videos.

        Raises
        ------
        UserInputError
            If the run cannot start.
        """
        options = self.options
        self.prices = load_prices(options.prices)
        setup = Setup(store_path=str(options.open_store().root), model_servers=options.model_servers)
        project = Project(Path(options.out))
        self.maker = Maker(
            setup, options.settings, project, options.without_review, options.limits, self.prices
        )
        given = load_videos(Path(options.videos))
        self.videos, self.left_out = tuple(given.videos), tuple(given.left_out)

    def idle(self) -> bool:
        """Return True: there is no work for workers, only for model servers."""
        return True

    def run(self, _open_executor: object = None) -> PromptsResult:
        """Make all possible prompts; in a dry run, only estimate."""
        expected, made = None, []
        if self.options.dry_run:
            expected = self.maker.estimate(self.videos)
        else:
            if self.videos:
                self.progress.expect(_STAGE, len(self.videos))
            made = self.maker.run(
                self.videos,
                self.options.concurrency,
                lambda _done, _total, note: self.progress.done(_STAGE, note),
            )
        return PromptsResult(
            out=self.options.out, made=tuple(made), left_out=self.left_out, expected=expected
        )
