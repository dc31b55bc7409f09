"""``slvmeval sources``: inspect a data set before a build, and categorise its videos."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import Field

from flows.parameters import Given, OwnPrompts, SiteParameters
from slvmeval.cli import terminal
from slvmeval.cli.declared import CommandGroup

if TYPE_CHECKING:
    from storage_schemas.source import Source
    from tasks.llm.questions import Unanswered

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
    as_json: terminal.JsonOption = False


@app.command()
def scan(
    options: ScanOptions,
) -> None:
    """List the sources of a data set with duration and number of captions, and why others are unusable.

    Exit code 3 if some are unusable. Nothing is written.

    Example: `slvmeval sources scan folder:VIDEOS`
    """
    from flows.release.options import source_root
    from storage_schemas.errors import UserInputError
    from storage_schemas.set_aside import SetAsideRow
    from tasks.sources.registry import open_sources

    data_set = source_root(options.root)
    if data_set.options.get("unpack"):
        raise UserInputError("sources scan writes nothing and cannot unpack: remove unpack=true")
    adapter = open_sources(
        data_set.kind, Path(data_set.path), None, options.site().settle_s, **data_set.options
    )
    rows: list[dict[str, Any]] = []
    with terminal.step_bar("sources", options.as_json) as step:
        total = adapter.count()
        for done, item in enumerate(adapter.scan(), 1):
            if isinstance(item, SetAsideRow):
                values = _set_aside(item.source_id, item.location, item.reason.value, item.message)
            else:
                values = _usable(item)
            rows.append(values)
            step(done, max(total, done), str(values["video"]))
    if options.as_json:
        terminal.print_json(rows)
    else:
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
        terminal.console().print(terminal.table(f"sources in {data_set.path}", columns, cells, numbers=2))
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
    as_json: terminal.JsonOption = False


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

    data_set, site = source_root(options.root), options.site()
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

    with terminal.step_bar("sources", options.as_json) as step:

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
    if options.as_json:
        terminal.print_json({"chosen": chosen, "failed": failed, "known": known})
    else:
        terminal.say(
            f"{len(chosen)} of {len(without)} sources got a category in {path / CATEGORIES_NAME}; "
            f"{known} had one",
            *(f"{id_}: {message}" for id_, message in failed.items()),
        )
    if failed:
        raise typer.Exit(terminal.SOME_SET_ASIDE)


def _usable(source: Source) -> dict[str, Any]:
    """Probe a source; report what a build would set aside."""
    from storage_schemas.errors import SetAside
    from tasks.media.probe import probe
    from tasks.sources.clips import check_clips_against_duration

    try:
        info = probe(Path(source.video))
        check_clips_against_duration(source.clips, info.duration_s)
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
        "licence": source.licence,
        "redistributable": source.redistributable,
        "content_category": source.content_category,
        "reason": "",
        "message": "",
    }


def _set_aside(id_: str, location: str, reason: str, message: str) -> dict[str, Any]:
    return {
        "id": id_,
        "video": location,
        "duration_s": None,
        "captions": None,
        "reason": reason,
        "message": message,
    }
