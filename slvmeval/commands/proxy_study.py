"""``slvmeval meta-sets proxy-study``: do degraded videos rank evaluators as generated ones do?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer

from slvmeval.commands import shared
from slvmeval.commands.build import DirectOption, QuietOption
from slvmeval.commands.shared import OUTPUT_PANEL

if TYPE_CHECKING:
    from tasks.evaluators.proxy_result import ProxyResult
    from tasks.statistics.trials import TiePolicy

STUDY_PANEL = "The study"

TiesOption = Annotated[
    str,
    typer.Option("--ties", metavar="half|wrong|dropped", help="What an evaluator's tie counts."),
]


def register(group: typer.Typer) -> None:
    """Add the command to its group."""
    group.command(name="proxy-study")(proxy_study)


def proxy_study(
    fetv: Annotated[
        Path, typer.Argument(metavar="FETV", help="Folder with FETV's scores, prompts and videos.")
    ],
    evaluators: Annotated[
        list[str] | None,
        typer.Option("--evaluator", "-e", metavar="NAME[?KEY=VALUE&…]", help="Who is ranked; several."),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--evaluators", metavar="FILE", help="Evaluators with settings, as TOML.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Write the result as JSON and CSV.", rich_help_panel=OUTPUT_PANEL
        ),
    ] = None,
    videos: Annotated[
        Path | None,
        typer.Option("--videos", metavar="DIR", help="Folder of the videos; FETV/datas/videos by default."),
    ] = None,
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--model", metavar="NAME", help="Only this generating model.", rich_help_panel=STUDY_PANEL
        ),
    ] = None,
    couples: Annotated[
        int | None,
        typer.Option("--couples", min=1, help="At most so many joined prompts.", rich_help_panel=STUDY_PANEL),
    ] = None,
    score: Annotated[
        str, typer.Option("--score", help="FETV's human score.", rich_help_panel=STUDY_PANEL)
    ] = "alignment",
    aspect: Annotated[
        str, typer.Option("--aspect", help="The aspect that is degraded.", rich_help_panel=STUDY_PANEL)
    ] = "comprehensiveness",
    strength: Annotated[
        str, typer.Option("--strength", help="How strongly.", rich_help_panel=STUDY_PANEL)
    ] = "",
    seed: Annotated[int, typer.Option("--seed", help="Key of all draws.", rich_help_panel=STUDY_PANEL)] = 0,
    fps: Annotated[
        str, typer.Option("--fps", help="Frames a second that are looked at.", rich_help_panel=STUDY_PANEL)
    ] = "1",
    ties: TiesOption = "half",
    usd: Annotated[
        float | None, typer.Option("--most-dollars", min=0, help="End it before it costs more.")
    ] = None,
    store: shared.StoreOption = None,
    model_folders: shared.ModelsOption = None,
    workers: shared.WorkersOption = None,
    profile: shared.ProfileOption = None,
    direct: DirectOption = False,
    as_json: shared.JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Rank evaluators on real against generated and on real against degraded videos; say how alike.

    Answers are kept in the store: the same command goes on where it was stopped. Exit code 3: some requests
    have no answer.

    Example: `slvmeval meta-sets proxy-study FETV -e duration -e coin -e motion --out RESULT --store STORE`
    """
    from flows.evaluate_resolve import evaluate_options
    from flows.proxy_study import study_result
    from slvmeval.commands.running_evaluation import run_evaluation
    from tasks.evaluators.meta_sets.table import rate_of
    from tasks.evaluators.proxy_study import ProxyPairs

    if not evaluators and file is None:
        raise typer.BadParameter("name at least one, see `slvmeval evaluators`", param_hint="--evaluator")
    policy, _ = tie_policy(ties), rate_of(fps)
    study = ProxyPairs(
        path=str(fetv.expanduser().resolve()),
        videos=None if videos is None else str(videos.expanduser().resolve()),
        score=score,
        aspect=aspect,
        strength=strength,
        models=tuple(models or ()),
        couples=couples,
        seed=seed,
        fps=fps,
    )
    site = shared.settings(profile, store=store, models=model_folders, workers=workers)
    options = evaluate_options(
        site, evaluators or (), None if file is None else str(file), pairs_from=study, limits={"usd": usd}
    )
    ran = run_evaluation(options, site, direct, quiet)
    result = study_result(options, study, policy)
    if out is not None:
        _write(result, out)
    if as_json:
        shared.print_json(result.as_json())
    else:
        _print_study(result)
        shared.say(*(f"{one.label} stopped: {one.stopped}" for one in ran.evaluators if one.stopped))
    raise typer.Exit(ran.exit_code)


def _print_study(result: ProxyResult) -> None:
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
    shared.console().print(shared.table(result.title, columns, rows, numbers=7))
    found = result.correlation
    if found.coefficient is None:
        shared.say(
            f"Spearman's ρ is not defined over n = {found.n} evaluators: it needs two whose accuracies differ"
        )
        return
    p = "p is not defined" if found.p is None else f"p = {found.p:.3g}"
    shared.say(f"Spearman's ρ of the two rankings: {found.coefficient:.3f} ({p}, n = {found.n} evaluators)")


def _write(result: ProxyResult, folder: Path) -> None:
    import json

    from storage_schemas.commit import write_atomic

    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result.as_json(), indent=1, ensure_ascii=False) + "\n"
    write_atomic(folder / "proxy-study.json", text.encode())
    write_atomic(folder / "proxy-study.csv", result.as_csv().encode())


def tie_policy(text: str) -> TiePolicy:
    """Return what a tie counts."""
    from tasks.statistics.trials import TiePolicy

    if text not in get_args(TiePolicy):
        raise typer.BadParameter(f"choose one of {', '.join(get_args(TiePolicy))}", param_hint="--ties")
    return cast(TiePolicy, text)


def percent(share: float | None) -> str:
    """Return a share as a table shows it."""
    return "–" if share is None else f"{100 * share:.1f}"


def _rank(rank: float | None) -> str:
    return "–" if rank is None else f"{rank:g}"
