"""``slvmeval meta-sets``: other people's sets of judged pairs, and the proxy study on one of them.

``slvmeval meta-sets proxy-study``: do degraded and generated videos rank evaluators alike?
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import Field

from flows.parameters import OUTPUT, RARE, Given
from flows.score.parameters import EvaluateParameters
from slvmeval.cli import terminal
from slvmeval.cli.declared import CommandGroup, Only
from slvmeval.cli.evaluate.report import TiesOption
from slvmeval.cli.listing import KINDS, ListOptions, chosen
from storage_schemas.model import Frozen

if TYPE_CHECKING:
    from tasks.extras.meta_sets.proxy_result import ProxyResult


STUDY_PANEL = "The study"


class ProxyStudyOptions(Frozen):
    """Options of `proxy-study`."""

    fetv: Annotated[Path, Given(("fetv",), "FETV")] = Field(
        description="Folder with FETV's scores, prompts and videos."
    )
    out: Annotated[Path | None, Given(metavar="DIR", panel=OUTPUT)] = Field(
        default=None, description="Write a page, JSON, tables and the figure."
    )
    videos: Annotated[Path | None, Given(metavar="DIR")] = Field(
        default=None, description="Folder of the videos; FETV/datas/videos by default."
    )
    models: Annotated[tuple[str, ...], Given(("--generator",), "NAME", panel=STUDY_PANEL)] = Field(
        default=(), description="Only this generating model."
    )
    couples: Annotated[int | None, Given(("--max-pairs",), by_set=True)] = Field(
        default=None, ge=1, description="Maximum number of joined prompts."
    )
    score: Annotated[str, Given(by_set=True)] = Field(default="alignment", description="FETV's human score.")
    aspect: Annotated[str, Given(panel=RARE)] = Field(
        default="comprehensiveness", description="The aspect to degrade."
    )
    strength: Annotated[str, Given(by_set=True)] = Field(default="", description="How strongly.")
    seed: Annotated[int, Given(panel=RARE)] = Field(default=0, description="Seed of all draws.")
    fps: Annotated[str, Given(by_set=True)] = Field(default="1", description="Frames per second to look at.")
    ties: TiesOption = "half"


def proxy_study(
    parameters: Annotated[
        EvaluateParameters,
        Only("evaluators", "max_dollars", "store", "model_folders", "workers", "profile"),
    ],
    run: Annotated[terminal.RunSwitches, Only("direct", "output", "quiet")],
    given: ProxyStudyOptions,
) -> None:
    """Rank evaluators on real against generated and on real against degraded videos; report their agreement.

    Answers are kept in the store: the same command resumes. Exit code 3: some requests
    have no answer.

    Example: `slvmeval meta-sets proxy-study FETV -e duration -e coin -e motion --out RESULT --store STORE`
    """
    from flows.command_runs import run_flow
    from flows.extras.meta_sets.proxy_run import study_result
    from flows.score.evaluate_run import EVALUATE
    from flows.score.options import evaluate_options
    from tasks.extras.meta_sets.provider import rate_of
    from tasks.extras.meta_sets.proxy_study import ProxyPairs

    if not (parameters.evaluators or parameters.evaluators_file):
        raise typer.BadParameter("name one, see `slvmeval list evaluators`", param_hint="--evaluator")
    rate_of(given.fps)
    study = ProxyPairs(
        path=str(given.fetv.expanduser().resolve()),
        videos=terminal.path_text(given.videos),
        score=given.score,
        aspect=given.aspect,
        strength=given.strength,
        models=tuple(given.models or ()),
        couples=given.couples,
        seed=given.seed,
        fps=given.fps,
    )
    site = parameters.site()
    options = evaluate_options(parameters, site, pairs_from=study)
    ran = run_flow(EVALUATE, options, site, run.direct, run.quiet)
    result = study_result(options, study, given.ties)
    if given.out is not None:
        _write(result, given.out)
    terminal.show(
        run.output,
        result.as_json(),
        lambda: _print_study(result),
        *(f"{one.label} stopped: {one.stopped}" for one in ran.evaluators if one.stopped),
    )
    raise typer.Exit(ran.exit_code)


def _print_study(result: ProxyResult) -> None:
    from tasks.extras.meta_sets.proxy_page import correlation_text

    columns = ("evaluator", "rank", "generated %", "pairs", "rank", "degraded %", "pairs", "failed")
    rows = [
        (
            row.evaluator,
            _rank(row.generated_rank),
            percent(row.generated.accuracy),
            row.generated.pairs,
            _rank(row.degraded_rank),
            percent(row.degraded.accuracy),
            row.degraded.pairs,
            row.generated.failed + row.degraded.failed,
        )
        for row in result.rows
    ]
    terminal.say(terminal.Grid(result.title, columns, rows, numbers=7))
    terminal.say(correlation_text(result))


def _write(result: ProxyResult, folder: Path) -> None:
    import json

    from storage_schemas.commit import write_atomic
    from tasks.extras.meta_sets.proxy_page import proxy_files

    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result.as_json(), indent=1, ensure_ascii=False) + "\n"
    write_atomic(folder / "proxy-study.json", text.encode())
    write_atomic(folder / "proxy-study.csv", result.as_csv().encode())
    for name, content in proxy_files(result).items():
        write_atomic(folder / name, content)


def percent(share: float | None) -> str:
    """Return a share as shown in tables."""
    return "–" if share is None else f"{100 * share:.1f}"


def _rank(rank: float | None) -> str:
    return "–" if rank is None else f"{rank:g}"


app = CommandGroup(
    no_args_is_help=True, help="Other people's sets of judged pairs: the proxy study on one of them."
)


def register(parent: typer.Typer) -> None:
    """Add the group."""
    app.command(name="proxy-study")(proxy_study)
    parent.add_typer(app, name="meta-sets", rich_help_panel="Judges")
    KINDS["meta-sets"] = list_sets


def list_sets(options: ListOptions) -> None:
    """Print the sets that can be judged in place of a release; for NAME:PATH, what its files contain."""
    from tasks.extras.meta_sets.provider import SETS, descriptions

    if any(":" in name for name in options.names):
        left_out = [_check_set(name, options.output) for name in options.names]
        raise typer.Exit(terminal.SOME_SET_ASIDE if any(left_out) else 0)
    own = descriptions()
    sets = {name: SETS[name] for name in chosen(options, SETS)}
    rows = [
        (name, one.title, ", ".join(own.get(name, {})) or "those of this project")
        for name, one in sets.items()
    ]
    terminal.show(
        options.output,
        {
            name: {"title": one.title, "aspects": own.get(name, {}), "fps": one.fps}
            for name, one in sets.items()
        },
        terminal.Grid("Sets", ("name", "title", "aspects"), rows),
    )


def _check_set(where: str, output: terminal.Format) -> bool:
    """Print what a set's files contain, without opening videos; return whether something is left out."""
    from collections import Counter

    from tasks.extras.meta_sets.provider import meta_set_from_text

    pairs = meta_set_from_text(where)
    loaded = pairs.loaded()
    counts = Counter((pair.aspect, pair.gold) for pair in loaded.pairs)
    aspects = sorted({aspect for aspect, _ in counts})
    rows = [(name, *(counts[name, gold] for gold in ("a", "b", "tie"))) for name in aspects]
    title = f"{pairs.title}: {len(loaded.pairs)} pairs"
    terminal.show(
        output,
        {
            "set": pairs.name,
            "pairs": len(loaded.pairs),
            "aspects": {name: {gold: counts[name, gold] for gold in ("a", "b", "tie")} for name in aspects},
            "left_out": loaded.reasons(),
            "examples": [vars(one) for one in loaded.left_out[: terminal.MAX_LISTED]],
        },
        terminal.Grid(title, ("aspect", "a", "b", "tie"), rows, numbers=3),
        *(f"{one.where}: {one.reason}: {one.message}" for one in loaded.left_out[: terminal.MAX_LISTED]),
    )
    return bool(loaded.left_out)
