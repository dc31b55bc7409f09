"""`slvmeval prompts`: every prompt that models get, to be read, exported and replaced."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from pydantic import Field

from flows.parameters import Given
from slvmeval.cli import terminal
from slvmeval.cli.declared import CommandGroup
from slvmeval.cli.listing import KINDS, ListOptions
from storage_schemas.model import Frozen

app = CommandGroup(
    no_args_is_help=True,
    help="Read, export and check the prompts that models get.\n\n"
    "The built-in prompts are in our own words. Your folder replaces them, for example by a paper's exact "
    "wording: `slvmeval prompts export DIR`, edit the files, `slvmeval evaluate … --prompts DIR`.",
)


def register(parent: typer.Typer) -> None:
    """Add the group."""
    parent.add_typer(app, name="prompts", rich_help_panel="Judges")
    KINDS["prompts"] = list_prompts


def list_prompts(options: ListOptions) -> None:
    """Print the prompts: who sends them, where a paper prints their wording, what a replacement needs."""
    from storage_schemas.errors import UserInputError, suggestion
    from tasks.llm.prompt_files import prompt_catalogue

    prompts = [one for one in prompt_catalogue().values() if not options.names or one.area in options.names]
    if not prompts:
        areas, name = dict.fromkeys(one.area for one in prompt_catalogue().values()), options.names[0]
        raise UserInputError(f"list prompts {name}: {suggestion(name, areas, 'the areas are')}")
    rows = [
        (
            one.key,
            one.used_by,
            one.words,
            ", ".join([*(f"{{{name}}}" for name in one.needs), *(f"# {name}" for name in one.sections)]),
        )
        for one in prompts
    ]
    titles = ("prompt", "sent by", "wording printed in", "needs")
    terminal.show(
        options.as_json,
        {one.key: one.model_dump(exclude={"area", "name"}) for one in prompts},
        terminal.Grid("Prompts", titles, rows),
    )


TargetArgument = Annotated[Path, Given(("folder",), "DIR"), Field(description="Where the files are written.")]


class ExportOptions(Frozen):
    """Options of `export`."""

    folder: TargetArgument
    area: Annotated[tuple[str, ...], Given(("area",), "AREA")] = Field(
        default=(), description="Only this area; see `slvmeval list prompts`."
    )


@app.command()
def export(
    options: ExportOptions,
) -> None:
    """Write the built-in prompts into a folder as AREA/NAME.txt; existing files are kept.

    A file that you do not change, or remove, stands for the built-in prompt.

    Example: `slvmeval prompts export my-prompts judges descriptions`
    """
    from storage_schemas.commit import write_atomic
    from storage_schemas.errors import UserInputError, suggestion
    from tasks.llm.prompt_files import prompt_catalogue

    areas = dict.fromkeys(one.area for one in prompt_catalogue().values())
    for name in options.area or ():
        if name not in areas:
            raise UserInputError(f"prompts export: {suggestion(name, areas, 'the areas are')}")
    if options.folder.exists() and not options.folder.is_dir():
        raise UserInputError(f"{options.folder} is a file: name a folder")
    written = stayed = 0
    for one in prompt_catalogue().values():
        if options.area and one.area not in options.area:
            continue
        place = options.folder / f"{one.key}.txt"
        if place.exists():
            stayed += 1
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(place, one.ours.read_bytes())
        written += 1
    there = f"; {stayed} existed and are unchanged" if stayed else ""
    terminal.say(
        f"{written} prompts written into {options.folder}{there}.",
        f"Edit them, then `slvmeval prompts check {options.folder}`.",
    )


class CheckOptions(Frozen):
    """Options of `check`."""

    folder: Annotated[Path, Given(("folder",), "DIR")] = Field(description="Your folder of prompts.")
    as_json: terminal.JsonOption = False


@app.command()
def check(
    options: CheckOptions,
) -> None:
    """Check a folder of prompts: names, placeholders, sections. Nothing is sent.

    Exit code 1: something is wrong, one line a mistake.

    Example: `slvmeval prompts check my-prompts`
    """
    from tasks.llm.prompt_files import check_prompts, own_prompts, prompts_digest

    mistakes = check_prompts(options.folder)
    changed = [] if mistakes else sorted(own_prompts(options.folder))
    areas = dict.fromkeys(key.partition("/")[0] for key in changed)
    digests = {area: prompts_digest(options.folder, [area]) for area in areas}
    terminal.show(
        options.as_json,
        {"mistakes": mistakes, "changed": changed, "digests": digests},
        *(
            [*mistakes]
            if mistakes
            else [
                *(f"{key}: yours" for key in changed),
                f"{len(changed)} prompts of {options.folder} replace the built-in ones."
                if changed
                else f"{options.folder} changes nothing: all of its prompts are the built-in ones.",
                *(f"{area}: digest {digest}" for area, digest in digests.items()),
            ]
        ),
    )
    if mistakes:
        raise typer.Exit(1)


class FromPaperOptions(Frozen):
    """Options of `from-paper`."""

    file: Annotated[Path, Given(("file",), "FILE")] = Field(
        description="Your copy of a paper's text, or of VideoScore's model card."
    )
    folder: TargetArgument
    as_json: terminal.JsonOption = False


@app.command(name="from-paper")
def from_paper(options: FromPaperOptions) -> None:
    """Take the wording of prompts out of a paper's text into a folder, by section; existing files are kept.

    Exit code 3: a prompt is missing, cannot replace ours, or has other words than the paper that we know.

    Example: `slvmeval prompts from-paper slvmeval.txt exact`
    """
    from storage_schemas.errors import UserInputError
    from tasks.llm.printed_prompts import take_prompts, write_prompts

    if options.folder.exists() and not options.folder.is_dir():
        raise UserInputError(f"{options.folder} is a file: name a folder")
    taken = take_prompts(options.file)
    written, stayed = write_prompts(options.folder, taken.texts)
    odd = {
        **dict.fromkeys(taken.missing, "not found"),
        **{key: f"not written: {why}" for key, why in taken.mistakes.items()},
        **dict.fromkeys(taken.strange, "other words than the paper that we know: compare it with yours"),
    }
    counts = {"written": written, "existed": stayed}
    there = f"; {stayed} existed and are unchanged" if stayed else ""
    terminal.show(
        options.as_json,
        {"paper": taken.paper, **counts, "texts": sorted(taken.texts), "odd": odd},
        *(f"{key}: {what}" for key, what in odd.items()),
        f"{written} prompts of {taken.paper} written into {options.folder}{there}.",
        f"Read them, then `slvmeval prompts check {options.folder}`.",
    )
    if odd:
        raise typer.Exit(terminal.SOME_SET_ASIDE)
