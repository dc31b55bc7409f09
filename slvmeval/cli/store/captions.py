"""``slvmeval captions``: results of the caption analysis."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slvmeval.cli import terminal

if TYPE_CHECKING:
    from storage_schemas.store import Store
    from tasks.pairs.analyser_comparison import AnalyserComparison, StoredAnalysis

app = typer.Typer(no_args_is_help=True, help="Results of the caption analysis.")

_ANALYSER = (
    "An analyser's name (rules, llm), or the recipe that has it: a built-in name, a .toml or .json file."
)


def register(parent: typer.Typer) -> None:
    """Add the group."""
    parent.add_typer(app, name="captions", rich_help_panel="Build")


@app.command()
def compare(
    first: Annotated[str, typer.Option("--first", metavar="NAME|RECIPE", help=_ANALYSER)] = "rules",
    second: Annotated[
        str, typer.Option("--second", metavar="NAME|RECIPE", help="The other analyser.")
    ] = "llm",
    examples: Annotated[
        int, typer.Option("--examples", min=0, help="Maximum number of disagreements to show per field.")
    ] = 3,
    store: terminal.StoreOption = None,
    profile: terminal.ProfileOption = None,
    as_json: terminal.JsonOption = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the two tables as CSV.")] = False,
) -> None:
    """Compare two analysers on the captions that both analysed.

    For each field: in how many clips each names something, and how well the entries agree.
    For each aspect: the share of clips that each finds eligible. Build the same sources with two recipes that
    differ in `caption_analysis` first; existing analyses are reused.

    Example: `slvmeval captions compare --store STORE`
    """
    from tasks.pairs.analyser_comparison import compare as compare_analyses
    from tasks.pairs.analyser_comparison import stored_analyses

    opened = terminal.open_store(store, profile)
    stored = stored_analyses(opened)
    found = compare_analyses(_chosen(stored, first), _chosen(stored, second), examples)
    if as_json:
        terminal.print_json({"first": first, "second": second, **found.model_dump(mode="json")})
    elif as_csv:
        _print_csv(found)
    else:
        _print_comparison(found, first, second, _captions(opened))


@app.command()
def show(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="Id of a source.")],
    clip: Annotated[int | None, typer.Option("--clip", min=0, help="Only this clip, counted from 0.")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Include the language model's raw answers.")] = False,
    store: terminal.StoreOption = None,
    profile: terminal.ProfileOption = None,
    as_json: terminal.JsonOption = False,
) -> None:
    """Print the analyses of a source's captions, and the cost of the language model's answers.

    Example: `slvmeval captions show SOURCE --store STORE --clip 3 --raw`
    """
    from storage_schemas.errors import UserInputError
    from tasks.pairs.analyser_comparison import stored_analyses

    opened = terminal.open_store(store, profile)
    captions = _captions(opened)
    stored = [found for found in stored_analyses(opened) if _is_of(found, source, captions)]
    if not stored:
        raise UserInputError(f"there is no analysis of source {source!r} in {opened.root}")
    rows = [row for found in stored for row in _clip_rows(opened, found, captions.get(source), raw)]
    rows = [row for row in rows if clip is None or row["clip"] == clip]
    if not rows:
        raise UserInputError(f"source {source!r} has no clip {clip}")
    if as_json:
        terminal.print_json(rows)
        return
    for row in sorted(rows, key=lambda row: int(row["clip"])):
        _print_clip(row)


def _chosen(stored: list[StoredAnalysis], name: str) -> dict[str, StoredAnalysis]:
    from tasks.captions.stage import ANALYSERS, make_analyser
    from tasks.pairs.analyser_comparison import of_analyser
    from tasks.recipe import load_recipe

    if name in ANALYSERS:
        return of_analyser(stored, name)
    analyser = make_analyser(load_recipe(name).caption_analysis)
    return of_analyser(stored, f"{analyser.name} of recipe {name}", analyser.consumes())


def _captions(store: Store) -> dict[str, list[str]]:
    """Return the captions of the store's releases, by source."""
    from storage_schemas.release import Release, release_names

    found: dict[str, list[str]] = {}
    for name in release_names(store):
        release = Release.open(store, name)
        for row in release.sources():
            found[row.source_id] = [clip.caption for clip in release.clips(row.source_id)]
    return found


def _is_of(found: StoredAnalysis, source: str, captions: dict[str, list[str]]) -> bool:
    from storage_schemas.ids import digest_value

    if source in captions:
        return found.captions == digest_value(captions[source])
    return found.source_id == source


def _clip_rows(
    store: Store, found: StoredAnalysis, captions: list[str] | None, raw: bool
) -> list[dict[str, Any]]:
    from storage_schemas.parquet import read_dicts
    from storage_schemas.store import ANALYSIS
    from tasks.captions.stage import ANSWERS_FILE

    path = store.artifact_path(ANALYSIS, found.manifest.id) / ANSWERS_FILE
    answers = {row["clip"]: row for row in read_dicts(path)} if found.has_answers else {}
    rows = []
    for index, analysis in enumerate(found.analyses):
        answer = dict(answers.get(index) or {})
        for key in ("source_id", "clip", *(() if raw else ("text", "reasoning"))):
            answer.pop(key, None)
        rows.append(
            {
                "clip": index,
                "caption": captions[index] if captions else None,
                "analyser": found.analyser["analyser"],
                "analysis": analysis.model_dump(mode="json"),
                "answer": answer or None,
            }
        )
    return rows


def _print_clip(row: dict[str, Any]) -> None:
    from storage_schemas.analysis import CaptionAnalysis
    from tasks.pairs.analyser_comparison import entries

    terminal.say(
        f"clip {row['clip']}, {row['analyser']}: {row['caption'] or '(its caption is in no release)'}"
    )
    analysis = CaptionAnalysis.model_validate(row["analysis"])
    for name in CaptionAnalysis.model_fields:
        terminal.say(f"  {name:<21} {'; '.join(entries(analysis, name)) or '-'}")
    answer = row["answer"]
    if answer:
        terminal.say(
            f"  answered by {answer['model'] or 'a model without a name'}: tries {answer['tries']}, calls "
            f"{answer['calls']}, tokens {answer['tokens_in']} in and {answer['tokens_out']} out, "
            f"{answer['seconds']:.1f} s"
        )
        for reason in answer["refused"]:
            terminal.say(f"  not accepted before: {reason}")
        for key in ("reasoning", "text"):
            if answer.get(key):
                terminal.say(f"  {key}:", *(f"    {line}" for line in answer[key].splitlines()))
    terminal.say("")


def _share(count: int, clips: int) -> str:
    return f"{count / clips:.1%}" if clips else "-"


def _print_comparison(
    found: AnalyserComparison, first: str, second: str, captions: dict[str, list[str]]
) -> None:
    first, second = Path(first).name, Path(second).name
    fields = [
        (
            row.field,
            *(_share(count, row.clips) for count in (row.first, row.second, row.both)),
            "-" if row.overlap is None else f"{row.overlap:.2f}",
        )
        for row in found.fields
    ]
    title = f"{found.clips} clips of {found.sources} sources: share that names something"
    columns = ("field", first, second, "both", "overlap")
    terminal.console().print(terminal.table(title, columns, fields, numbers=4))
    aspects = [
        (row.aspect, *(_share(count, row.clips) for count in (row.first, row.second, row.both)))
        for row in found.aspects
    ]
    terminal.console().print(
        terminal.table("share that is eligible", ("aspect", first, second, "both"), aspects, numbers=3)
    )
    for one in found.examples:
        caption = captions.get(one.source_id)
        terminal.say(
            f"{one.field}, clip {one.clip} of {one.source_id}:{' ' + caption[one.clip] if caption else ''}"
        )
        terminal.say(
            f"  {first}: {'; '.join(one.first) or '-'}", f"  {second}: {'; '.join(one.second) or '-'}"
        )


def _print_csv(found: AnalyserComparison) -> None:
    lines = csv.writer(sys.stdout, lineterminator="\n")
    lines.writerow(("kind", "name", "clips", "first", "second", "both", "overlap"))
    for row in found.fields:
        shown = "" if row.overlap is None else f"{row.overlap:.4f}"
        lines.writerow(("field", row.field, row.clips, row.first, row.second, row.both, shown))
    for eligible in found.aspects:
        counts = (eligible.clips, eligible.first, eligible.second, eligible.both)
        lines.writerow(("aspect", eligible.aspect, *counts, ""))
