"""The Prefect flow `prompts-slvmeval`: prompts from a user's own videos, as far as people looked at them."""

from __future__ import annotations

import logging
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.states import Completed, Failed

from flows.board import RunBoard
from flows.dashboard import post_name
from flows.run_ends import told_to_end
from flows.score.suite_options import settings_from_text
from flows.worker_site import check_absolute, site_of_worker
from infra.prefect_server import PROMPTS_FLOW_NAME, log_level, quiet_libraries
from storage_schemas.errors import SlvmevalError, UserInputError
from storage_schemas.model import Frozen
from storage_schemas.store import Store
from tasks.llm.limits import Limits
from tasks.llm.usage import load_prices
from tasks.prompt_suite.maker import Expected, Made, Maker
from tasks.prompt_suite.project import Project
from tasks.prompt_suite.settings import prompt_suite_settings
from tasks.prompt_suite.videos import load_videos
from tasks.scoring.setup import Setup
from tasks.scoring.user_files import UnusedLine

log = logging.getLogger(__name__)

_STATES = {
    "ready": "ready",
    "waiting": "waiting for a person",
    "left_out": "left out",
    "failed": "failed",
    "unfinished": "unfinished",
}


class PromptsResult(Frozen):
    """What became of the videos; after a dry run, what it would take."""

    out: str
    made: tuple[Made, ...]
    left_out: tuple[UnusedLine, ...] = ()
    expected: Expected | None = None

    def in_words(self) -> str:
        """Say it in a sentence."""
        if self.expected is not None:
            would = self.expected
            dollars = "unknown dollars" if would.usd is None else f"{would.usd:.2f} dollars"
            return (
                f"{would.videos} videos would take at most {would.calls} calls with {would.images} images, "
                f"{would.tokens_in} tokens in and {would.tokens_out} out, {dollars}; nobody was asked"
            )
        counts = Counter[str](one.state for one in self.made)
        said = ", ".join(f"{counts[state]} {words}" for state, words in _STATES.items() if counts[state])
        more = f", {len(self.left_out)} of videos that cannot be used" if self.left_out else ""
        ended = next((f"; {one.message}" for one in self.made if one.state == "unfinished"), "")
        return f"Prompts in {self.out}: {said}{more}{ended}"

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


# The parameters are described in Google's style: the only one that Prefect reads for the form in its UI.
@flow(name=PROMPTS_FLOW_NAME, validate_parameters=True, persist_result=False)
def prompts_slvmeval(
    videos: str = "",
    out: str = "",
    settings: tuple[str, ...] = (),
    without_review: bool = False,
    concurrency: int = 4,
    most_dollars: float = 0.0,
    most_tokens: int = 0,
    prices: str = "",
    dry_run: bool = False,
    store: str = "",
    profile: str = "",
) -> State[PromptsResult]:
    """Make prompts of videos: drafts first, then the rest of what a person accepted.

    Answers are kept, so it may run as often as one likes. It only asks model servers, and starts no cluster.
    What is empty or 0 is as the profile says, or has no limit. Paths are absolute, on the machine of the
    Prefect worker.

    Args:
        videos: A folder of videos, or a .csv or .jsonl file that lists them.
        out: Folder of drafts, reviews and prompts; a person looks at it with suite prompts review.
        settings: Settings, each KEY=VALUE.
        without_review: Take drafts that nobody looked at as they are.
        concurrency: Videos at once.
        most_dollars: End the run before it costs more.
        most_tokens: End the run before it takes more.
        prices: Path of a price list in place of ours.
        dry_run: Only say what it would take; nobody is asked.
        store: Folder of the store.
        profile: Path of the site's settings, a .toml file with store and model servers.
    """
    log_level(logging.INFO)
    try:
        with told_to_end(), RunBoard() as board:
            result = make_prompts(
                videos,
                out,
                settings,
                without_review,
                concurrency,
                most_dollars,
                most_tokens,
                prices,
                dry_run,
                store,
                profile,
            )
            _show(board, result)
    except SlvmevalError as problem:
        # the message says what to do; how the program came to it helps nobody
        log.error("%s", problem)
        return Failed(message=str(problem))
    return Completed(message=result.in_words(), data=result)


def make_prompts(
    videos: str,
    out: str,
    settings: tuple[str, ...] = (),
    without_review: bool = False,
    concurrency: int = 4,
    most_dollars: float = 0.0,
    most_tokens: int = 0,
    prices: str = "",
    dry_run: bool = False,
    store: str = "",
    profile: str = "",
) -> PromptsResult:
    """Make prompts as a worker is asked to; see the flow for what is given.

    Raises
    ------
    UserInputError
        For anything that does not exist or fit, before any work.
    """
    for what, path in (("videos", videos), ("out", out)):
        if not path:
            raise UserInputError(f"{what} is empty: give its path")
        check_absolute(what, path)
    if prices:
        check_absolute("prices", prices)
    if concurrency < 1:
        raise UserInputError(f"concurrency is {concurrency}: give 1 or more")
    if most_dollars < 0 or most_tokens < 0:
        raise UserInputError(
            "most_dollars and most_tokens are limits: give numbers from 0, which is no limit"
        )
    site = site_of_worker(profile, {"store": store})
    wanted = prompt_suite_settings(settings_from_text(list(settings)))
    held = Store.create(Path(site.store).expanduser())
    setup = Setup(store_path=str(held.root), model_servers=site.model_servers)
    project = Project(Path(out).expanduser())
    limits = Limits(usd=most_dollars or None, tokens=most_tokens or None)
    maker = Maker(setup, wanted, project, without_review, limits, load_prices(prices or None))
    given = load_videos(Path(videos).expanduser())
    quiet_libraries()

    def step(done: int, total: int, note: str) -> None:
        log.info("%d of %d: %s", done, total, note)

    if dry_run:
        expected = maker.estimate(given.videos)
        return PromptsResult(out=str(project.folder), made=(), left_out=given.left_out, expected=expected)
    made = maker.run(given.videos, concurrency, step)
    return PromptsResult(out=str(project.folder), made=tuple(made), left_out=given.left_out)


def _show(board: RunBoard, result: PromptsResult) -> None:
    context = FlowRunContext.get()
    if context is None or context.flow_run is None:
        return
    says = result.in_words()
    videos = len(result.made) if result.expected is None else result.expected.videos
    post_name(board, context.flow_run.id, f"prompts · {videos} videos", [])
    board.post("prompts", partial(create_markdown_artifact, says, key="prompts-made", description=says))
    board.post(
        "prompt-rows", partial(create_table_artifact, result.rows(), key="prompts", description="Prompts")
    )
