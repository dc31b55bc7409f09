"""Drafts as files that a person edits in any editor, and back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from storage_schemas.commit import write_atomic
from storage_schemas.errors import UserInputError
from tasks.prompt_suite.project import Draft, Project, Review
from tasks.scoring.user_files import UnusedLine, read_text

#: Between what is said of the text and the text.
LINE = "---"
#: Nobody has decided yet.
OPEN = "open"
_KEYS = ("prompt", "draft", "video", "verdict", "by", "note")
#: A file that cannot be taken over.
UNFIT = "unfit"


@dataclass(frozen=True)
class TakenOver:
    """What became of the files.

    Parameters
    ----------
    reviews
        What they say and what counts.
    open
        Prompts that nobody decided on.
    unfit
        Files that do not fit.
    replaced
        Prompts whose file was taken over before, and of which something else was said since, which stays.
    """

    reviews: tuple[Review, ...]
    open: tuple[str, ...]
    unfit: tuple[UnusedLine, ...]
    replaced: tuple[str, ...] = ()


def write_edit_files(project: Project) -> tuple[list[Path], list[Path]]:
    """Write a file for each draft that nobody looked at yet.

    Returns
    -------
    tuple of lists
        Files that were written, and files that were there already and were left as they are: a person may
        have worked on them.
    """
    project.need()
    written, there = [], []
    for draft in project.drafts():
        path = project.edit_folder / f"{draft.prompt_id}.md"
        if project.approved(draft) is not None:
            continue
        if path.exists():
            there.append(path)
            continue
        write_atomic(path, edit_text(draft).encode())
        written.append(path)
    return written, there


def edit_text(draft: Draft) -> str:
    """Return the file of a draft."""
    return (
        f"prompt: {draft.prompt_id}\n"
        f"draft: {draft.digest}\n"
        f"video: {' '.join(draft.video.path.split())}\n"
        f"verdict: {OPEN}\n"
        "by:\n"
        "note:\n"
        f"{LINE}\n"
        f"{draft.text}\n"
    )


def take_over(project: Project) -> TakenOver:
    """Take over all files in which a person wrote a verdict; the files stay.

    Raises
    ------
    UserInputError
        If there is no file.
    """
    project.need()
    reviews: list[Review] = []
    open_: list[str] = []
    unfit: list[UnusedLine] = []
    paths = sorted(project.edit_folder.glob("[!.]*.md"))
    if not paths:
        raise UserInputError(
            f"{project.edit_folder} has no files: `slvmeval suite prompts review --edit {project.folder}` "
            "writes them"
        )
    for path in paths:
        try:
            said, text = read_edit_file(path)
            if said["verdict"] == OPEN:
                open_.append(said["prompt"])
                continue
            reviews.append(
                project.review(
                    said["prompt"],
                    said["draft"],
                    said["verdict"],
                    text,
                    said["by"],
                    said["note"],
                    saved_at=path.stat().st_mtime,
                )
            )
        except UserInputError as problem:
            unfit.append(UnusedLine(path.name, UNFIT, str(problem)))
    counting = {one.id for one in project.current().values()}
    return TakenOver(
        tuple(one for one in reviews if one.id in counting),
        tuple(open_),
        tuple(unfit),
        tuple(one.prompt_id for one in reviews if one.id not in counting),
    )


def read_edit_file(path: Path) -> tuple[dict[str, str], str]:
    """Return what is said of a text, and the text.

    Raises
    ------
    UserInputError
        If the file cannot be read or is not built like ours.
    """
    lines = read_text(path).replace("\r\n", "\n").split("\n")
    if LINE not in (line.strip() for line in lines):
        raise UserInputError(f"{path} has no line {LINE} before the text")
    at = next(number for number, line in enumerate(lines) if line.strip() == LINE)
    said = dict.fromkeys(_KEYS, "")
    for line in filter(str.strip, lines[:at]):
        key, colon, value = line.partition(":")
        if not colon or key.strip() not in said:
            raise UserInputError(f"{path}: {line[:80]!r} is none of {', '.join(_KEYS)}, each with a colon")
        said[key.strip()] = value.strip()
    for key in ("prompt", "draft", "verdict"):
        if not said[key]:
            raise UserInputError(f"{path} has no {key}")
    return said, "\n".join(lines[at + 1 :])
