"""`slvmeval prompts`: read, export and replace the prompts sent to models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import Field

from flows.parameters import Given
from slvmeval.cli import terminal
from slvmeval.cli.declared import refuse
from slvmeval.cli.listing import KINDS, ListOptions, chosen
from storage_schemas.counts import count_text
from storage_schemas.model import Frozen

if TYPE_CHECKING:
    from tasks.llm.printed_prompts import Taken


def register(parent: typer.Typer) -> None:
    """Add the command."""
    parent.command(rich_help_panel="Judges")(prompts)
    KINDS["prompts"] = list_prompts


def list_prompts(options: ListOptions) -> None:
    """Print the prompts: what sends them, where a paper prints their wording, what a replacement needs."""
    from tasks.llm.prompt_files import prompt_catalogue

    every = prompt_catalogue().values()
    areas = chosen(options, dict.fromkeys(one.area for one in every))
    listed = [one for one in every if one.area in areas]
    rows = [
        (
            one.key,
            one.used_by,
            one.words,
            ", ".join([*(f"{{{name}}}" for name in one.needs), *(f"# {name}" for name in one.sections)]),
        )
        for one in listed
    ]
    titles = ("prompt", "sent by", "wording printed in", "needs")
    terminal.show(
        options.output,
        {one.key: one.model_dump(exclude={"area", "name"}) for one in listed},
        terminal.Grid("Prompts", titles, rows),
    )


class PromptsOptions(Frozen):
    """Options of `prompts`."""

    folder: Annotated[Path, Given(("folder",), "DIR")] = Field(description="Your folder of prompts.")
    areas: Annotated[tuple[str, ...], Given(("area",), "AREA")] = Field(
        default=(), description="Only this area; see `slvmeval list prompts`."
    )
    paper: Annotated[Path | None, Given(("--from-paper",), "FILE")] = Field(
        default=None,
        description="Take the exact words from your copy of a paper's text, or of VideoScore's model card.",
    )
    dry_run: bool = Field(default=False, description="Write nothing; only check the prompts in DIR.")
    output: terminal.FormatOption = "table"


def prompts(options: PromptsOptions) -> None:
    """Write the prompts sent to models into a folder for editing, and check those you have edited.

    The built-in prompts are in our own words; `slvmeval evaluate … --prompts DIR` sends yours instead. Files
    are AREA/NAME.txt. Existing ones are kept: run it again to check what you edited. For a file that you
    remove or leave unchanged, the built-in prompt is used. Nothing is sent.

    Exit code 1: one of your prompts has a mistake. 3: with --from-paper, a prompt is missing, cannot replace
    ours, or differs from the known wording of the paper.

    Example: `slvmeval prompts my-prompts judges`, `slvmeval prompts exact --from-paper slvmeval.txt`
    """
    from storage_schemas.errors import UserInputError, suggestion
    from tasks.llm.printed_prompts import take_prompts, write_prompts
    from tasks.llm.prompt_files import check_prompts, own_prompts, prompt_catalogue, prompts_digest

    folder, catalogue = options.folder, prompt_catalogue()
    all_areas = dict.fromkeys(one.area for one in catalogue.values())
    for area in options.areas:
        if area not in all_areas:
            raise UserInputError(f"prompts {folder} {area}: {suggestion(area, all_areas, 'the areas are')}")
    wanted = {key: one for key, one in catalogue.items() if one.area in (options.areas or all_areas)}
    if folder.exists() and not folder.is_dir():
        raise UserInputError(f"{folder} is a file: name a folder")
    if options.dry_run:
        refuse(options, "not with --dry-run", "areas", "paper")
    taken = None if options.paper is None else take_prompts(options.paper)
    odd = {} if taken is None else {key: what for key, what in _odd(taken).items() if key in wanted}
    if taken is None:
        texts = {key: one.ours.read_text(encoding="utf-8").removesuffix("\n") for key, one in wanted.items()}
    else:
        texts = {key: text for key, text in taken.texts.items() if key in wanted}
    written, existed = (0, 0) if options.dry_run else write_prompts(folder, texts)
    mistakes = check_prompts(folder)
    changed = [] if mistakes else sorted(own_prompts(folder))
    areas = dict.fromkeys(key.partition("/")[0] for key in changed)
    digests = {area: prompts_digest(folder, [area]) for area in areas}
    of_paper = "" if taken is None else f" of {taken.paper}"
    terminal.show(
        options.output,
        {
            "paper": None if taken is None else taken.paper,
            "written": written,
            "existed": existed,
            "texts": sorted(texts),
            "odd": odd,
            "mistakes": mistakes,
            "changed": changed,
            "digests": digests,
        },
        *(f"{key}: {what}" for key, what in odd.items()),
        *mistakes,
        *(f"{key}: yours" for key in changed),
        *(f"{area}: digest {digest}" for area, digest in digests.items()),
        f"{folder}: {count_text(written, 'prompt')}{of_paper} written, {existed} existed and are unchanged; "
        f"{count_text(len(mistakes), 'mistake')}, "
        f"{count_text(len(changed), 'prompt')} in place of built-in ones",
    )
    if mistakes or odd:
        raise typer.Exit(1 if mistakes else terminal.SOME_SET_ASIDE)


def _odd(taken: Taken) -> dict[str, str]:
    """Return a remark on each prompt that cannot be used as it is, by prompt."""
    return {
        **dict.fromkeys(taken.missing, "not found"),
        **{key: f"not written: {why}" for key, why in taken.mistakes.items()},
        **dict.fromkeys(taken.strange, "differs from the known wording of the paper: compare it with yours"),
    }
