"""Drafts as text files for any editor, and reading them back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from storage_schemas.commit import write_atomic
from storage_schemas.errors import UserInputError
from tasks.extras.prompt_suite.project import Draft, Project, Review
from tasks.scoring.user_files import UnusedLine, read_text

#: Separates the header from the text.
LINE = "---"
#: Verdict of an undecided draft.
OPEN = "open"
_KEYS = ("prompt", "draft", "video", "verdict", "by", "note")
#: A file that cannot be imported.
UNFIT = "unfit"


@dataclass(frozen=True)
class ImportedEdits:
    """Result of importing the files.

    Parameters
    ----------
    reviews
        Reviews of the files that are now current.
    open
        Prompts without a verdict.
    unfit
        Invalid files.
    replaced
        Prompts whose file was imported before and has been replaced by a newer review, which stays current.
    """

    reviews: tuple[Review, ...]
    open: tuple[str, ...]
    unfit: tuple[UnusedLine, ...]
    replaced: tuple[str, ...] = ()


def write_edit_files(project: Project) -> tuple[list[Path], list[Path]]:
    """Write a file for each draft without a review.

    Returns
    -------
    tuple of lists
        Files that were written, and files that existed already and were not changed, because a person may
        have edited them.
    """
    project.need()
    written, existing = [], []
    for draft in project.drafts():
        path = project.edit_folder / f"{draft.prompt_id}.md"
        if project.approved(draft) is not None:
            continue
        if path.exists():
            existing.append(path)
            continue
        write_atomic(path, edit_text(draft).encode())
        written.append(path)
    return written, existing


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


def import_edits(project: Project) -> ImportedEdits:
    """Import all files with a verdict as reviews; the files stay.

    Raises
    ------
    UserInputError
        If there are no files.
    """
    project.need()
    reviews: list[Review] = []
    open_: list[str] = []
    unfit: list[UnusedLine] = []
    paths = sorted(project.edit_folder.glob("[!.]*.md"))
    if not paths:
        raise UserInputError(
            f"{project.edit_folder} has no files: "
            f"`slvmeval suite prompts review --edit {quote(str(project.folder))}` writes them"
        )
    for path in paths:
        try:
            header, text = read_edit_file(path)
            if header["verdict"] == OPEN:
                open_.append(header["prompt"])
                continue
            reviews.append(
                project.review(
                    header["prompt"],
                    header["draft"],
                    header["verdict"],
                    text,
                    header["by"],
                    header["note"],
                    saved_at=path.stat().st_mtime,
                )
            )
        except UserInputError as problem:
            unfit.append(UnusedLine(path.name, UNFIT, str(problem)))
    current = {review.id for review in project.current().values()}
    return ImportedEdits(
        tuple(review for review in reviews if review.id in current),
        tuple(open_),
        tuple(unfit),
        tuple(review.prompt_id for review in reviews if review.id not in current),
    )


def read_edit_file(path: Path) -> tuple[dict[str, str], str]:
    """Return the header and the text of a file.

    Raises
    ------
    UserInputError
        If the file cannot be read or does not have the format.
    """
    lines = read_text(path).replace("\r\n", "\n").split("\n")
    if LINE not in (line.strip() for line in lines):
        raise UserInputError(f"{path} has no line {LINE} before the text")
    at = next(number for number, line in enumerate(lines) if line.strip() == LINE)
    header = dict.fromkeys(_KEYS, "")
    for line in filter(str.strip, lines[:at]):
        key, colon, value = line.partition(":")
        if not colon or key.strip() not in header:
            raise UserInputError(f"{path}: {line[:80]!r} is none of {', '.join(_KEYS)}, each with a colon")
        header[key.strip()] = value.strip()
    for key in ("prompt", "draft", "verdict"):
        if not header[key]:
            raise UserInputError(f"{path} has no {key}")
    return header, "\n".join(lines[at + 1 :])
