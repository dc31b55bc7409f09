"""``slvmeval sources``: inspect a data set before a build, and categorise its videos."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import Field

from flows.parameters import Given, OwnPrompts, SiteParameters
from flows.release.parameters import DEFAULT_RECIPE, RecipeName
from slvmeval.cli import terminal
from slvmeval.cli.declared import CommandGroup

if TYPE_CHECKING:
    from storage_schemas.pair import ClipCount
    from storage_schemas.source import Source
    from tasks.captions.analyser import CaptionAnalyser
    from tasks.llm.questions import Unanswered
    from tasks.recipe import Recipe

app = CommandGroup(no_args_is_help=True, help="Inspect a data set before a build, and categorise its videos.")


def register(parent: typer.Typer) -> None:
    """Add the group."""
    parent.add_typer(app, name="sources", rich_help_panel="Start here")


@app.callback()
def _group() -> None:
    """Inspect a data set before a build, and categorise its videos."""


DataSetArgument = Annotated[
    str,
    Given(("argument",), "KIND:PATH"),
    Field(description="folder:PATH or vript:PATH; a plain PATH is a folder. Options as for build."),
]


class ScanOptions(SiteParameters):
    """Options of `scan`."""

    root: DataSetArgument
    recipe: RecipeName = DEFAULT_RECIPE
    sample: Annotated[int, Given(by_set=True)] = Field(
        default=50, ge=0, description="Count the clips of at most this number of sources."
    )
    output: terminal.FormatOption = "table"


@app.command()
def scan(
    options: ScanOptions,
) -> None:
    """List the sources of a data set, the clips that each aspect can use, and why others are unusable.

    Clips are counted by rules from the captions, for the recipe's aspects; an aspect with too few gets no
    pair, and what its captions must say is printed. Exit code 3 if some are unusable. Nothing is written.

    Example: `slvmeval sources scan folder:VIDEOS`
    """
    from flows.release.options import source_root
    from slvmeval.cli.build.clip_counts import advice_values, print_counts
    from storage_schemas.errors import UserInputError
    from storage_schemas.set_aside import SetAsideRow
    from tasks.recipe import load_recipe
    from tasks.sources.registry import open_sources

    data_set, recipe = source_root(options.root, "KIND:PATH"), load_recipe(options.recipe)
    if data_set.options.get("unpack"):
        raise UserInputError("sources scan writes nothing and cannot unpack: remove unpack=true")
    adapter = open_sources(
        data_set.kind, Path(data_set.path), None, options.site().settle_s, **data_set.options
    )
    rows: list[dict[str, Any]] = []
    analyser = None if options.sample == 0 else _analyser()
    counted = 0
    with terminal.step_bar("sources", options.output != "table") as step:
        total = adapter.count()
        for done, item in enumerate(adapter.scan(), 1):
            if isinstance(item, SetAsideRow):
                values = _set_aside(item.source_id, item.location, item.reason.value, item.message)
            else:
                values = _usable(item, recipe, analyser if counted < options.sample else None)
                counted += bool(values["clips"])
            rows.append(values)
            step(done, max(total, done), str(values["video"]))
    cells = [
        (
            Path(str(row["video"])).name,
            "" if row["duration_s"] is None else f"{row['duration_s']:.1f}",
            "" if row["captions"] is None else row["captions"],
            row["reason"] or "ok",
            row["message"] or row["id"],
        )
        for row in rows
    ]
    columns = ("video", "seconds", "captions", "state", "id, or why it is unusable")
    usable = sum(not row["reason"] for row in rows)
    terminal.show(
        options.output,
        [{**row, "captions_must_say": advice_values([row["clips"]])} for row in rows],
        terminal.Grid(f"sources in {data_set.path}", columns, cells, numbers=2),
        lambda: print_counts([(Path(str(row["video"])).name, row["clips"]) for row in rows if row["clips"]]),
        *(
            [f"captions:  those of {counted} of {usable} sources were looked at (--set sample=N)"]
            if 0 < counted < usable
            else []
        ),
    )
    if any(row["reason"] for row in rows):
        raise typer.Exit(terminal.SOME_SET_ASIDE)


class CategoriseOptions(SiteParameters):
    """Options of `categorise`."""

    root: DataSetArgument
    category: Annotated[tuple[str, ...], Given(("category",), "CATEGORY")] = Field(
        default=(), description="A category; by default YouTube's 15."
    )
    model: Annotated[str, Given(metavar="NAME")] = Field(
        default="", description="The model; Qwen/Qwen3-8B by default."
    )
    server: Annotated[str, Given(metavar="NAME")] = Field(
        default="", description="Its server in the profile's model_servers; caption-analysis by default."
    )
    prompts: OwnPrompts = None
    output: terminal.FormatOption = "table"


@app.command()
def categorise(
    options: CategoriseOptions,
) -> None:
    """Let a language model choose the content category of each source that has none, from its captions.

    The answers go into content_categories.jsonl of the data set as they arrive; you may correct them there.
    The next build puts them into the release: gallery, report and data set card count videos by category.
    Exit code 3 if some sources stay without one.

    Example: `slvmeval sources categorise folder:VIDEOS --profile site.toml`
    """
    from flows.release.options import source_root
    from storage_schemas.errors import UserInputError
    from storage_schemas.set_aside import SetAsideRow
    from storage_schemas.source import content_category_mistake
    from tasks.captions.content_category import CONTENT_CATEGORY, CategoryParameters, ask_categories
    from tasks.llm.prompt_files import prompt_text, require_prompts
    from tasks.llm.questions import Unanswered
    from tasks.llm.servers import Servers
    from tasks.sources.content_categories import CATEGORIES_NAME, CategoryLine, append_content_category
    from tasks.sources.registry import open_sources

    data_set, site = source_root(options.root, "KIND:PATH"), options.site()
    for name in options.category or ():
        if not name.strip():
            raise UserInputError("CATEGORY is empty: name a category")
        if mistake := content_category_mistake(name):
            raise UserInputError(f"category {name!r} {mistake}")
    if options.category and len(set(options.category)) < 2:
        raise UserInputError("name at least two different categories: categorise DATA NAME NAME")
    require_prompts(options.prompts)
    given = {"model": options.model, "server": options.server, "categories": options.category}
    values = {
        "prompt": prompt_text(CONTENT_CATEGORY, options.prompts),
        **{k: v for k, v in given.items() if v},
    }
    parameters = CategoryParameters.model_validate(values)
    path = Path(data_set.path)
    items = list(open_sources(data_set.kind, path, None, 0.0, **data_set.options).scan())
    sources = [item for item in items if not isinstance(item, SetAsideRow)]
    without = [source for source in sources if not source.content_category]
    failed: dict[str, str] = {}
    chosen: dict[str, str] = {}

    with terminal.step_bar("sources", options.output != "table") as step:

        def on_category(source: Source, result: str | Unanswered, answered_by: str) -> None:
            if isinstance(result, Unanswered):
                failed[source.id] = result.message
            else:
                line = CategoryLine(
                    source_id=source.id, content_category=result, title=source.title, model=answered_by
                )
                append_content_category(path, line)
                chosen[source.id] = result
            step(len(chosen) + len(failed), len(without), source.title)

        ask_categories(without, parameters, Servers(site.model_servers, Path(site.store)), on_category)
    known = len(sources) - len(without)
    terminal.show(
        options.output,
        {"chosen": chosen, "failed": failed, "known": known},
        f"{len(chosen)} of {len(without)} sources got a category in {path / CATEGORIES_NAME}; "
        f"{known} had one",
        *(f"{id_}: {message}" for id_, message in failed.items()),
    )
    if failed:
        raise typer.Exit(terminal.SOME_SET_ASIDE)


def _analyser() -> CaptionAnalyser | None:
    """Return the analyser by rules; None, with a line, if its package is not installed."""
    from storage_schemas.errors import PrerequisiteError
    from tasks.captions.analyser import AnalyserRecipe
    from tasks.captions.stage import make_analyser

    analyser = make_analyser(AnalyserRecipe(name="rules"))
    try:
        analyser.check()
    except PrerequisiteError as problem:
        terminal.tell(f"clips are not counted by aspect: {problem}")
        return None
    return analyser


def _usable(source: Source, recipe: Recipe, analyser: CaptionAnalyser | None) -> dict[str, Any]:
    """Probe a source and count its clips; report what a build would set aside."""
    from slvmeval.cli.build.clip_counts import counts_values
    from storage_schemas.errors import SetAside
    from tasks.media.probe import probe
    from tasks.sources.clips import check_clips_against_duration

    try:
        info = probe(Path(source.video))
        check_clips_against_duration(source.clips, info.duration_s)
        clips = {} if analyser is None else counts_values(_counts(source, info.duration_s, recipe, analyser))
    except SetAside as problem:
        return _set_aside(source.id, source.video, problem.reason.value, problem.message)
    return {
        "id": source.id,
        "title": source.title,
        "video": source.video,
        "duration_s": info.duration_s,
        "width": info.width,
        "height": info.height,
        "captions": len(source.clips),
        "clips": clips,
        "licence": source.licence,
        "redistributable": source.redistributable,
        "content_category": source.content_category,
        "reason": "",
        "message": "",
    }


def _counts(
    source: Source, duration_s: float, recipe: Recipe, analyser: CaptionAnalyser
) -> tuple[ClipCount, ...]:
    from tasks.captions.stage import all_analysed
    from tasks.pairs.clip_counts import predicted_counts

    analyses = all_analysed(analyser.analyse([clip.caption for clip in source.clips]), source)
    return predicted_counts(source, duration_s, analyses, recipe)


def _set_aside(id_: str, location: str, reason: str, message: str) -> dict[str, Any]:
    return {
        "id": id_,
        "video": location,
        "duration_s": None,
        "captions": None,
        "clips": {},
        "reason": reason,
        "message": message,
    }
