"""``slvmeval captions``: results of the caption analysis."""

from __future__ import annotations

import csv
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import Field

from flows.parameters import Given, SiteParameters
from slvmeval.cli import terminal
from slvmeval.cli.declared import refuse
from storage_schemas.counts import count_text

if TYPE_CHECKING:
    from storage_schemas.store import Store
    from tasks.pairs.analyser_comparison import AnalyserComparison, StoredAnalysis


def register(parent: typer.Typer) -> None:
    """Add the command."""
    parent.command(rich_help_panel="Build")(captions)


class CaptionsOptions(SiteParameters):
    """Options of `captions`."""

    what: Annotated[tuple[str, ...], Given(("what",), "SOURCE | FIRST SECOND")] = Field(
        default=(),
        description="Id of a source; or two analysers, by default rules and llm: each a name, or a recipe "
        "that uses it (a built-in name, a .toml or .json file).",
    )
    clip: int | None = Field(
        default=None, ge=0, description="For a source, show only this clip, counted from 0."
    )
    raw: bool = Field(default=False, description="For a source, also show the language model's raw answers.")
    examples: Annotated[int, Given(("--max-shown",), by_set=True)] = Field(
        default=3, ge=0, description="Maximum number of disagreements to show per field."
    )
    output: terminal.FormatOption = "table"
    as_csv: Annotated[bool, Given(("--csv",), by_set=True)] = Field(
        default=False, description="Print the two tables as CSV."
    )


def captions(options: CaptionsOptions) -> None:
    """Show the analyses of a source's captions and their cost, or compare two analysers.

    Two analysers are compared on the captions that both analysed: for each field, the share of clips with
    entries and how well these agree; for each aspect, the share of eligible clips. First build the same
    sources with two recipes that differ in `caption_analysis`; existing analyses are reused.

    Example: `slvmeval captions SOURCE --store STORE --clip 3 --raw`, `slvmeval captions rules mine.toml`
    """
    if len(options.what) > 2:
        raise typer.BadParameter("name a source, or two analysers", param_hint="SOURCE")
    if options.as_csv:
        refuse(options, "not with --set csv=true", "output", "examples")
    if len(options.what) == 1:
        refuse(options, "only for two analysers", "examples", "as_csv")
        _show(options, options.what[0])
    else:
        refuse(options, "only for a SOURCE", "clip", "raw")
        _compare(options, *(options.what or ("rules", "llm")))


def _compare(options: CaptionsOptions, first: str, second: str) -> None:
    from tasks.pairs.analyser_comparison import compare as compare_analyses
    from tasks.pairs.analyser_comparison import stored_analyses

    opened = terminal.open_store(options)
    stored = stored_analyses(opened)
    comparison = compare_analyses(_analyses_of(stored, first), _analyses_of(stored, second), options.examples)
    terminal.show(
        options.output,
        {"first": first, "second": second, **comparison.model_dump(mode="json")},
        *(
            [lambda: _print_csv(comparison)]
            if options.as_csv
            else [lambda: _print_comparison(comparison, first, second, _captions(opened))]
        ),
    )


def _show(options: CaptionsOptions, source: str) -> None:
    from storage_schemas.errors import UserInputError
    from tasks.pairs.analyser_comparison import stored_analyses

    opened = terminal.open_store(options)
    captions = _captions(opened)
    stored = [one for one in stored_analyses(opened) if _is_of(one, source, captions)]
    if not stored:
        raise UserInputError(f"there is no analysis of source {source!r} in {opened.root}")
    rows = [row for one in stored for row in _clip_rows(opened, one, captions.get(source), options.raw)]
    rows = [row for row in rows if options.clip is None or row["clip"] == options.clip]
    if not rows:
        raise UserInputError(f"source {source!r} has no clip {options.clip}")
    in_order = sorted(rows, key=lambda row: int(row["clip"]))
    terminal.show(options.output, rows, *(partial(_print_clip, row) for row in in_order))


def _analyses_of(stored: list[StoredAnalysis], name: str) -> dict[str, StoredAnalysis]:
    from tasks.captions.stage import ANALYSERS, make_analyser
    from tasks.pairs.analyser_comparison import of_analyser
    from tasks.recipe import load_recipe

    if name in ANALYSERS:
        return of_analyser(stored, name)
    analyser = make_analyser(load_recipe(name).caption_analysis)
    return of_analyser(stored, f"{analyser.name} of recipe {name}", analyser.consumes())


def _captions(store: Store) -> dict[str, list[str]]:
    """Return the captions of the store's releases as analysed, by source; empty for clips without frames."""
    from storage_schemas.release import Release, release_names

    captions: dict[str, list[str]] = {}
    for name in release_names(store):
        release = Release.open(store, name)
        for row in release.sources():
            captions[row.source_id] = [
                clip.caption if clip.frame_count else "" for clip in release.clips(row.source_id)
            ]
    return captions


def _is_of(analysis: StoredAnalysis, source: str, captions: dict[str, list[str]]) -> bool:
    from storage_schemas.ids import digest_value

    if source in captions:
        return analysis.captions == digest_value(captions[source])
    return analysis.source_id == source


def _clip_rows(
    store: Store, stored: StoredAnalysis, captions: list[str] | None, raw: bool
) -> list[dict[str, Any]]:
    from storage_schemas.parquet import read_dicts
    from storage_schemas.store import ANALYSIS
    from tasks.captions.stage import ANSWERS_FILE

    path = store.artifact_path(ANALYSIS, stored.manifest.id) / ANSWERS_FILE
    answers = {row["clip"]: row for row in read_dicts(path)} if stored.has_answers else {}
    rows = []
    for index, analysis in enumerate(stored.analyses):
        answer = dict(answers.get(index) or {})
        for key in ("source_id", "clip", *(() if raw else ("text", "reasoning"))):
            answer.pop(key, None)
        rows.append(
            {
                "clip": index,
                "caption": captions[index] if captions else None,
                "analyser": stored.analyser["analyser"],
                "analysis": analysis.model_dump(mode="json"),
                "answer": answer or None,
            }
        )
    return rows


def _caption_words(caption: str | None) -> str:
    if caption is None:
        return "(no release has its caption)"
    return caption or "(the clip owns no frame: not analysed)"


def _print_clip(row: dict[str, Any]) -> None:
    from storage_schemas.analysis import CaptionAnalysis
    from tasks.pairs.analyser_comparison import entries

    terminal.say(f"clip {row['clip']}, {row['analyser']}: {_caption_words(row['caption'])}")
    analysis = CaptionAnalysis.model_validate(row["analysis"])
    for name in CaptionAnalysis.model_fields:
        terminal.say(f"  {name:<21} {'; '.join(entries(analysis, name)) or '-'}")
    answer = row["answer"]
    if answer:
        terminal.say(
            f"  answered by {answer['model'] or 'an unnamed model'}: attempts {answer['tries']}, calls "
            f"{answer['calls']}, tokens {answer['tokens_in']} in and {answer['tokens_out']} out, "
            f"{answer['seconds']:.1f} s"
        )
        for reason in answer["refused"]:
            terminal.say(f"  rejected before: {reason}")
        for key in ("reasoning", "text"):
            if answer.get(key):
                terminal.say(f"  {key}:", *(f"    {line}" for line in answer[key].splitlines()))
    terminal.say("")


def _share(count: int, clips: int) -> str:
    return f"{count / clips:.1%}" if clips else "-"


def _print_comparison(
    comparison: AnalyserComparison, first: str, second: str, captions: dict[str, list[str]]
) -> None:
    first, second = Path(first).name, Path(second).name
    fields = [
        (
            row.field,
            *(_share(count, row.clips) for count in (row.first, row.second, row.both)),
            "-" if row.overlap is None else f"{row.overlap:.2f}",
        )
        for row in comparison.fields
    ]
    compared = f"{count_text(comparison.clips, 'clip')} of {count_text(comparison.sources, 'source')}"
    title = f"{compared}: share of clips with an entry"
    columns = ("field", first, second, "both", "overlap")
    terminal.say(terminal.Grid(title, columns, fields, numbers=4))
    aspects = [
        (row.aspect, *(_share(count, row.clips) for count in (row.first, row.second, row.both)))
        for row in comparison.aspects
    ]
    terminal.say(
        terminal.Grid("share of eligible clips", ("aspect", first, second, "both"), aspects, numbers=3)
    )
    for one in comparison.examples:
        caption = captions.get(one.source_id)
        terminal.say(
            f"{one.field}, clip {one.clip} of {one.source_id}:{' ' + caption[one.clip] if caption else ''}"
        )
        terminal.say(
            f"  {first}: {'; '.join(one.first) or '-'}", f"  {second}: {'; '.join(one.second) or '-'}"
        )


def _print_csv(comparison: AnalyserComparison) -> None:
    lines = csv.writer(sys.stdout, lineterminator="\n")
    lines.writerow(("kind", "name", "clips", "first", "second", "both", "overlap"))
    for row in comparison.fields:
        overlap = "" if row.overlap is None else f"{row.overlap:.4f}"
        lines.writerow(("field", row.field, row.clips, row.first, row.second, row.both, overlap))
    for eligible in comparison.aspects:
        counts = (eligible.clips, eligible.first, eligible.second, eligible.both)
        lines.writerow(("aspect", eligible.aspect, *counts, ""))
