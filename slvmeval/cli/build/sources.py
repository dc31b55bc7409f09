"""``slvmeval sources``: inspect a data set before a build, caption and categorise its videos."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from pydantic import Field

from flows.parameters import DryRun, Given, ModelFolders, OwnPrompts, SiteParameters
from flows.release.parameters import DEFAULT_RECIPE, RecipeName
from slvmeval.cli import terminal
from slvmeval.cli.declared import CommandGroup, refuse
from slvmeval.command_line import command_line
from storage_schemas.counts import count_text
from storage_schemas.errors import Reason

if TYPE_CHECKING:
    from infra.profile import Profile
    from storage_schemas.pair import ClipCount
    from storage_schemas.source import Source
    from tasks.captions.analyser import CaptionAnalyser
    from tasks.first_captions import Captioner, CaptionParameters, Film
    from tasks.llm.questions import Unanswered
    from tasks.recipe import Recipe

app = CommandGroup(
    no_args_is_help=True, help="Inspect a data set before a build, caption and categorise its videos."
)


def register(parent: typer.Typer) -> None:
    """Add the group."""
    parent.add_typer(app, name="sources", rich_help_panel="Start here")


@app.callback()
def _group() -> None:
    """Inspect a data set before a build, caption and categorise its videos."""


#: Example captions that make a clip eligible for every aspect.
EXAMPLE = (
    '"A red boat drifts slowly across the harbour. A white tower stands on the left of the frame. In the '
    'background there is a green hill."'
)

DataSetArgument = Annotated[
    str,
    Given(("argument",), "KIND:PATH"),
    Field(description="folder:PATH or vript:PATH; a plain PATH is a folder. Options as for build."),
]


#: Reasons of films that may be captioned.
_TO_CAPTION = (Reason.CAPTIONS_MISSING, Reason.CAPTIONS_EMPTY)


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
    pair, and the command prints what its captions must describe. Exit code 3 if some are unusable. Nothing
    is written.

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

    def location(row: dict[str, Any]) -> str:
        video = Path(str(row["video"]))
        return str(video.relative_to(adapter.root) if video.is_relative_to(adapter.root) else video)

    rows: list[dict[str, Any]] = []
    analyser = None if options.sample == 0 else _analyser()
    counted = 0
    with terminal.step_bar("sources", options.output != "table") as step:
        total = adapter.count()
        for done, item in enumerate(adapter.scan(), 1):
            if isinstance(item, SetAsideRow):
                values = _set_aside(item.source_id, item.location, item.reason.value, item.message)
                if item.reason in _TO_CAPTION:
                    values |= _too_short(Path(data_set.path) / item.location, recipe)
            else:
                values = _usable(item, recipe, analyser if counted < options.sample else None)
                counted += bool(values["clips"])
            rows.append(values)
            step(done, max(total, done), location(values))
    cells = [
        (
            location(row),
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
        lambda: print_counts([(location(row), row["clips"]) for row in rows if row["clips"]]),
        *(
            [f"captions:  those of {counted} of {usable} sources were looked at (--set sample=N)"]
            if 0 < counted < usable
            else []
        ),
        *_next(data_set.kind, options.root, rows),
    )
    if any(row["reason"] for row in rows):
        raise typer.Exit(terminal.SOME_SET_ASIDE)


def _next(kind: str, root: str, rows: list[dict[str, Any]]) -> list[str]:
    """Return the next command for a data set, chosen by what is wrong with its sources."""
    from tasks.sources.clips import FILLED

    caption = command_line("sources", "caption", root)
    if kind == "folder" and any(row["reason"] == "captions_missing" for row in rows):
        return [f"next: {caption}"]
    if kind == "folder" and any(FILLED in row["message"] for row in rows):
        return [f"next: write the captions, or {caption} --server URL"]
    if not all(row["reason"] for row in rows):
        return [f"next: {command_line('build', '--dry-run', '--sources', root)}"]
    return []


class CaptionOptions(SiteParameters):
    """Options of `caption`."""

    root: Annotated[str, Given(("folder",), "FOLDER")] = Field(
        description="Where the videos are: folder:PATH, or a plain PATH."
    )
    model: Annotated[str, Given(metavar="NAME")] = Field(
        default="",
        description="A vision-language model: one of the server's, or ORG/MODEL to load it in this process.",
    )
    server: Annotated[str, Given(metavar="URL|NAME")] = Field(
        default="", description="An OpenAI-compatible server, or its name in the profile's model_servers."
    )
    dry_run: DryRun = False
    frames: Annotated[int, Given(by_set=True)] = Field(
        default=4, ge=1, le=32, description="Frames of each clip that the model sees."
    )
    shortest_s: Annotated[float, Given(by_set=True)] = Field(
        default=2.0,
        gt=0,
        description="Shortest clip in seconds; a shorter scene is merged into the previous one.",
    )
    longest_s: Annotated[float, Given(by_set=True)] = Field(
        default=10.0, gt=0, description="Longest clip in seconds; for a short film at most a tenth of it."
    )
    answer_tokens: Annotated[int, Given(by_set=True)] = Field(
        default=4096, ge=64, description="Maximum tokens of an answer, including reasoning."
    )
    dtype: Annotated[Literal["bfloat16", "float16", "float32"], Given(by_set=True)] = Field(
        default="bfloat16", description="Numeric precision of a model in this process."
    )
    model_folders: ModelFolders = ()
    prompts: OwnPrompts = None
    output: terminal.FormatOption = "table"


@app.command()
def caption(
    options: CaptionOptions,
) -> None:
    """Write first captions and clip boundaries, for you to edit, for the films in a folder that have none.

    Scenes become clips, and the model describes each from a few frames, into a .jsonl file next to the film.
    Without --model and --server the captions are left blank for you to write. Existing captions are kept and
    only blank ones are filled, so the same command resumes without repeating requests. Exit code 3: a model
    left some blank.

    Example: `slvmeval sources caption folder:VIDEOS --server http://localhost:8000/v1`
    """
    from flows.release.options import source_root
    from storage_schemas.errors import SetAside, UserInputError
    from storage_schemas.locks import holder, only_one
    from tasks.first_captions import FIRST_CAPTION, CaptionParameters, cut, find_films, write_captions
    from tasks.llm.prompt_files import prompt_text, require_prompts
    from tasks.sources.registry import open_sources

    if options.server:
        refuse(options, "only for a model in this process, without --server", "dtype", "model_folders")
    elif not options.model:
        unused = ("frames", "answer_tokens", "dtype", "model_folders", "prompts")
        refuse(options, "only with --server or --model", *unused)
    data_set, site = source_root(options.root, "FOLDER"), options.site()
    if data_set.kind != "folder":
        raise UserInputError(f"FOLDER {options.root}: only a folder of videos is captioned, folder:PATH")
    require_prompts(options.prompts)
    parameters = CaptionParameters(
        prompt=prompt_text(FIRST_CAPTION, options.prompts),
        frames=options.frames,
        shortest_s=options.shortest_s,
        longest_s=options.longest_s,
        answer_tokens=options.answer_tokens,
    )
    root = open_sources(data_set.kind, Path(data_set.path)).root
    captioner = _captioner(options, site, parameters)
    films: list[Film] = []
    problems: dict[str, str] = {}
    lock = root / ".captioning"
    # a dry run writes nothing, not even a lock
    with nullcontext(True) if options.dry_run else only_one(lock) as is_ours:
        if not is_ours:
            raise UserInputError(f"{holder(lock)} captions {root}: wait until it has finished")
        found = list(find_films(root))
        with terminal.step_bar("scenes", options.output != "table") as step:
            for number, item in enumerate(found, 1):
                location, film = item if isinstance(item, tuple) else (item.location, item)
                on_share = partial(_say_share, step, number - 1, len(found), location)
                on_share(0.0)
                try:
                    if isinstance(film, SetAside):
                        raise film
                    films.append(cut(film, parameters, on_share))
                    if not options.dry_run:
                        write_captions(films[-1], {})
                except SetAside as problem:
                    problems[location] = problem.message
                step(number, len(found), location)
        blank = {film.location: len(film.blank) for film in films}
        if captioner is not None and not options.dry_run:
            _describe(captioner, films, blank, problems, options.output != "table")
    _show_captioned(options, data_set.path, films, blank, problems, captioner)
    if problems or (captioner is not None and not options.dry_run and any(blank.values())):
        raise typer.Exit(terminal.SOME_SET_ASIDE)


def _say_share(
    step: Callable[[int, int, str], None], done: int, total: int, location: str, share: float
) -> None:
    step(done, total, f"{location}, {share:.0%}" if share else location)


def _captioner(options: CaptionOptions, site: Profile, parameters: CaptionParameters) -> Captioner | None:
    """Return the captioner, or None without a model; a server is asked whether it has the model."""
    from storage_schemas.errors import PrerequisiteError, UserInputError
    from tasks.first_captions import Captioner
    from tasks.llm.servers import Servers, check_server, list_models, why

    if not options.server and not options.model:
        return None
    if not options.server:
        from tasks.models.hub import ModelHub
        from tasks.scoring.judges.local_vlm import ImageTextSource, LocalClient

        hub = ModelHub([Path(folder).expanduser() for folder in site.model_folders])
        source = ImageTextSource(hub, options.model, options.dtype)
        source.check()
        return Captioner(options.model, LocalClient(source, at_once=4), parameters)
    server = Servers(site.model_servers, Path(site.store)).find(options.server, options.model)
    if not server.model:
        try:
            listed = list_models(server)
        except (OSError, ValueError) as problem:
            raise PrerequisiteError(
                f"{server.where} does not list its models ({why(problem)}): start it, "
                f"{server.correction}, or name the model with --model"
            ) from problem
        if len(listed) != 1:
            raise UserInputError(
                f"{server.where} has {len(listed)} models: choose with --model NAME "
                f"({', '.join(listed[:10])})"
            )
        server = server.model_copy(update={"model": listed[0]})
    check_server(server)
    return Captioner(server.model, server, parameters)


def _describe(
    captioner: Captioner, films: list[Film], blank: dict[str, int], problems: dict[str, str], quiet: bool
) -> None:
    """Describe all clips; `blank` is recounted, and `problems` gets each film's first error."""
    from storage_schemas.errors import SetAside
    from tasks.first_captions import count_blank
    from tasks.llm.questions import Unanswered

    total = sum(blank.values())
    done = 0
    with terminal.step_bar("clips", quiet) as step:

        def on_clip(film: Film, result: str | Unanswered) -> None:
            nonlocal done
            done += 1
            if isinstance(result, Unanswered):
                problems.setdefault(film.location, result.message)
            step(done, total, film.location)

        captioner.describe(films, on_clip)
    # read the files again: a user may have edited them
    for film in films:
        try:
            blank[film.location] = count_blank(film)
        except SetAside as problem:
            problems.setdefault(film.location, problem.message)


def _show_captioned(
    options: CaptionOptions,
    folder: str,
    films: list[Film],
    blank: dict[str, int],
    problems: dict[str, str],
    captioner: Captioner | None,
) -> None:
    """Print what was written for each film, and the next command."""
    rows = [
        {
            "video": film.location,
            "captions": str(film.captions),
            "clips": len(film.clips),
            "blank": blank[film.location],
            "problem": problems.get(film.location, ""),
        }
        for film in films
    ]
    locations = {film.location for film in films}
    rows += [
        {"video": name, "captions": "", "clips": 0, "blank": 0, "problem": text}
        for name, text in problems.items()
        if name not in locations
    ]
    left = sum(blank.values())
    scan = f"next: {command_line('sources', 'scan', f'folder:{folder}')}"
    if not rows:
        lines = [f"all videos in {folder} have captions", scan]
    elif not films:
        lines = ["no video could be captioned: see the problems above"]
    elif options.dry_run:
        asked = 0 if captioner is None else left
        pictures = f" of up to {options.frames} pictures each, to {captioner.model}" if captioner else ""
        lines = [f"dry run: {count_text(asked, 'request')}{pictures}; nothing was written"]
    elif captioner is None:
        lines = [
            f"{count_text(left, 'blank caption')}: write a few sentences for each into the files above, or "
            "let a model do it (--server or --model)",
            f"a caption that suits all aspects: {EXAMPLE}",
            "to watch a clip: ffplay -ss START_S -t SECONDS FILM",
            scan,
        ]
    elif left:
        lines = [
            f"{count_text(left, 'caption')} still missing: run the same command again, or write them yourself"
        ]
    else:
        lines = ["read the captions and correct them: a model wrote them", scan]
    columns = ("video", "clips", "blank", "captions", "problem")
    cells = [
        (row["video"], row["clips"], row["blank"], Path(str(row["captions"])).name, row["problem"])
        for row in rows
    ]
    terminal.show(
        options.output,
        {"films": rows, "requests": left if options.dry_run and captioner else 0},
        *([terminal.Grid(f"captions in {folder}", columns, cells, numbers=2)] if rows else []),
        *lines,
    )


class CategoriseOptions(SiteParameters):
    """Options of `categorise`."""

    root: DataSetArgument
    category: Annotated[tuple[str, ...], Given(("category",), "CATEGORY")] = Field(
        default=(), description="A category; by default YouTube's 15."
    )
    model: Annotated[str, Given(metavar="NAME")] = Field(
        default="", description="The model; Qwen/Qwen3-8B by default."
    )
    server: Annotated[str, Given(metavar="URL|NAME")] = Field(
        default="",
        description="Its server, or its name in the profile's model_servers; caption-analysis by default.",
    )
    prompts: OwnPrompts = None
    output: terminal.FormatOption = "table"


@app.command()
def categorise(
    options: CategoriseOptions,
) -> None:
    """Let a language model choose the content category of each source that has none, from its captions.

    The answers go into content_categories.jsonl of the data set as they arrive; you may correct them there.
    The next build adds them to the release; gallery, report and data set card count videos by category. Exit
    code 3 if some sources remain without one.

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
    with_category = len(sources) - len(without)
    terminal.show(
        options.output,
        {"chosen": chosen, "failed": failed, "known": with_category},
        f"{len(chosen)} of {len(without)} sources were given a category in {path / CATEGORIES_NAME}; "
        f"{with_category} had one",
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


def _too_short(video: Path, recipe: Recipe) -> dict[str, Any]:
    """Return why a film without captions could not be used even with captions (too short); else empty."""
    from storage_schemas.errors import SetAside
    from tasks.media.probe import probe
    from tasks.pairs.facts import require_length

    try:
        require_length(video.stem, probe(video).duration_s, recipe)
    except SetAside as problem:
        return {"reason": problem.reason.value, "message": problem.message}
    return {}


def _usable(source: Source, recipe: Recipe, analyser: CaptionAnalyser | None) -> dict[str, Any]:
    """Probe a source and count its clips; report what a build would set aside."""
    from slvmeval.cli.build.clip_counts import counts_values
    from storage_schemas.errors import SetAside
    from tasks.media.probe import probe
    from tasks.pairs.facts import require_length
    from tasks.sources.clips import check_clips_against_duration

    try:
        info = probe(Path(source.video))
        require_length(source.title, info.duration_s, recipe)
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
