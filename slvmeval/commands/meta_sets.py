"""``slvmeval meta-sets``: other people's sets of judged pairs, and the proxy study on one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from slvmeval.commands import proxy_study, shared

if TYPE_CHECKING:
    from tasks.statistics.cells import Cell

app = typer.Typer(
    no_args_is_help=True, help="Other people's sets of judged pairs; own pairs; the proxy study."
)

SetArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME:PATH", help="The set, with options: 'uve:UVE?videos=DIR&fps=2&long_side=512'."
    ),
]


def register(parent: typer.Typer) -> None:
    """Add the group."""
    proxy_study.register(app)
    parent.add_typer(app, name="meta-sets", rich_help_panel="Judges")


@app.command(name="list")
def list_sets(as_json: shared.JsonOption = False) -> None:
    """List the sets that can be judged in place of a release, and their own aspects.

    Example: `slvmeval meta-sets list`
    """
    from tasks.evaluators.meta_sets.table import SETS, descriptions

    own = descriptions()
    if as_json:
        found = {
            name: {"title": one.title, "aspects": own.get(name, {}), "fps": one.fps}
            for name, one in SETS.items()
        }
        shared.print_json(found)
        return
    rows = [
        (name, one.title, ", ".join(own.get(name, {})) or "those of this project")
        for name, one in SETS.items()
    ]
    shared.console().print(shared.table("Sets", ("name", "title", "aspects"), rows))


@app.command()
def check(
    where: SetArgument,
    most: Annotated[int, typer.Option("--most", min=0, help="Show so many of what is left out.")] = 10,
    as_json: shared.JsonOption = False,
) -> None:
    """Read a set's files and say what is in them: pairs by aspect and answer, and what is left out, and why.

    No video is opened. Exit code 3: something is left out.

    Example: `slvmeval meta-sets check uve:UVE`
    """
    from collections import Counter

    from tasks.evaluators.meta_sets.provider import meta_set_from_text

    pairs = meta_set_from_text(where)
    loaded = pairs.loaded()
    counts = Counter((pair.aspect, pair.gold) for pair in loaded.pairs)
    aspects = sorted({aspect for aspect, _ in counts})
    if as_json:
        shared.print_json(
            {
                "set": pairs.name,
                "pairs": len(loaded.pairs),
                "aspects": {
                    name: {gold: counts[name, gold] for gold in ("a", "b", "tie")} for name in aspects
                },
                "left_out": loaded.reasons(),
                "examples": [vars(one) for one in loaded.left_out[:most]],
            }
        )
    else:
        rows = [(name, *(counts[name, gold] for gold in ("a", "b", "tie"))) for name in aspects]
        title = f"{pairs.title}: {len(loaded.pairs)} pairs"
        shared.console().print(shared.table(title, ("aspect", "a", "b", "tie"), rows, numbers=3))
        shared.say(*(f"{one.where}: {one.reason}: {one.message}" for one in loaded.left_out[:most]))
    raise typer.Exit(shared.SOME_SET_ASIDE if loaded.left_out else 0)


@app.command()
def agreement(
    where: SetArgument,
    ties: proxy_study.TiesOption = "half",
    store: shared.StoreOption = None,
    profile: shared.ProfileOption = None,
    as_json: shared.JsonOption = False,
) -> None:
    """Say how far the evaluators that judged a set agree with its answers, with ties and without.

    *with ties*: better, worse and equal are three answers. *without*: only pairs in which one is better.
    *calibrated*: scorers with the margin under which two scores count as equal, chosen on these pairs.

    Example: `slvmeval meta-sets agreement uve:UVE --store STORE`
    """
    from storage_schemas.judgements_store import JudgementsStore
    from tasks.evaluators.meta_sets.agreement import agreements
    from tasks.evaluators.meta_sets.provider import meta_set_from_text

    policy = proxy_study.tie_policy(ties)
    pairs = meta_set_from_text(where)
    gold = pairs.meta_pairs()
    rows = JudgementsStore(shared.open_store(store, profile)).rows(pair_ids=list(gold))
    found = agreements(rows, pairs.facts(), gold, policy)
    if as_json:
        shared.print_json(
            [
                {
                    "evaluator": one.evaluator,
                    "settings": one.settings,
                    "aspect": one.aspect,
                    "with_ties": _cell(one.with_ties),
                    "without_ties": _cell(one.without_ties),
                    "calibrated": None
                    if one.calibrated is None
                    else {"agreement": one.calibrated.agreement, "margin": one.calibrated.margin},
                }
                for one in found
            ]
        )
        return
    if not found:
        shared.say(f"nobody judged this set yet: slvmeval evaluate --pairs '{where}' -e NAME")
        return
    columns = ("evaluator", "pairs", "with ties %", "pairs", "without %", "calibrated %", "failed", "aspect")
    cells = [
        (
            one.evaluator,
            one.with_ties.pairs,
            proxy_study.percent(one.with_ties.accuracy),
            one.without_ties.pairs,
            proxy_study.percent(one.without_ties.accuracy),
            proxy_study.percent(None if one.calibrated is None else one.calibrated.agreement),
            one.with_ties.failed,
            one.aspect,
        )
        for one in found
    ]
    shared.console().print(shared.table(pairs.title, columns, cells, numbers=6))


def _cell(cell: Cell) -> dict[str, object]:
    return {
        "accuracy": cell.accuracy,
        "low": None if cell.clustered is None else cell.clustered.low,
        "high": None if cell.clustered is None else cell.clustered.high,
        "pairs": cell.pairs,
        "n": cell.n,
        "ties": cell.ties,
        "failed": cell.failed,
    }
