"""Releases and submissions on the Hugging Face hub: push them there, and pull them into a store.

A release is its exported folder (:mod:`tasks.publish.export`) with its packed files
(:mod:`tasks.publish.packed_release`), as a repository of the type `dataset`.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from storage_schemas.commit import storage_errors, write_atomic
from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.ids import digest_text
from storage_schemas.release import Release
from storage_schemas.sizes import size_text
from storage_schemas.store import Store
from tasks.models.hub_access import HubProblem, ask_hub, hub_address
from tasks.publish.export import LIST_NAME
from tasks.publish.packed_release import PACKED_LIST, PackedList, Unpacking, read_packed_list
from tasks.report.owned_folder import owned_files

#: Folder of a repository with submissions.
SUBMISSIONS = "submissions"
#: Packed files that are downloaded before they are unpacked and removed.
FILES_AT_ONCE = 8
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
#: Marks of a repository that this program wrote.
_MARKS = (LIST_NAME, f"{SUBMISSIONS}/*.json")


def check_repository(name: str) -> str:
    """Return the name of a repository; raise UserInputError if it is invalid."""
    if _REPOSITORY.fullmatch(name) is None:
        raise UserInputError(
            f"{name!r} is not the name of a repository: it is ORGANISATION/NAME or USER/NAME"
        )
    return name


def push_release(folder: Path, repository: str, public: bool, message: str) -> str:
    """Upload an exported folder, and return the repository's address.

    Of the folder only what the export wrote is uploaded, and of that only what the repository lacks, so an
    interrupted upload resumes. Files of the repository that the folder does not have are removed, but for
    submissions.

    Parameters
    ----------
    public
        Whether a new repository can be read by everyone; an existing one stays as it is.

    Raises
    ------
    UserInputError
        If the repository holds something else.
    PrerequisiteError
        If the hub cannot be reached, or does not let this user write.
    """
    return _push(
        folder, owned_files(folder, LIST_NAME), "", repository, public, message, keep=(f"{SUBMISSIONS}/*",)
    )


def push_submission(file: Path, repository: str, public: bool, work: Path) -> str:
    """Upload a submission, and return the repository's address.

    Parameters
    ----------
    work
        A temporary folder.

    Raises
    ------
    UserInputError, PrerequisiteError
        As :func:`push_release`.
    """
    shutil.copyfile(file, work / file.name)
    return _push(work, [file.name], SUBMISSIONS, repository, public, f"Add {file.name}", keep=("*",))


def _push(
    folder: Path,
    files: Sequence[str],
    into: str,
    repository: str,
    public: bool,
    message: str,
    keep: Sequence[str],
) -> str:
    check_repository(repository)
    try:
        ask_hub(
            what="upload",
            type="dataset",
            repository=repository,
            folder=str(folder),
            files=files,
            into=into,
            message=message,
            public=public,
            marks=_MARKS,
            keep=keep,
        )
    except HubProblem as problem:
        if problem.kind == "strange":
            raise UserInputError(
                f"{repository} has other files ({problem}) and none of a release: name a new repository"
            ) from problem
        if problem.kind in ("denied", "missing"):
            raise PrerequisiteError(
                f"the hub at {hub_address()} does not let this user write to {repository}: log in with a "
                "token that may write (`hf auth login`, or HF_TOKEN), as a member of "
                f"{repository.partition('/')[0]} ({problem})"
            ) from problem
        raise PrerequisiteError(
            f"the upload to {repository} ended early ({problem}): run the same command again, which sends "
            "only what is missing"
        ) from problem
    return f"{hub_address()}/datasets/{repository}"


def pull_release(
    store: Store,
    repository: str,
    revision: str,
    tell: Callable[[str], None],
    progress: Callable[[int, int, str], None],
) -> Release:
    """Bring a release from the hub into a store, and return it.

    What the store has already is not downloaded again, so an interrupted pull resumes. Each artifact appears
    whole or not at all, and the release last.

    Parameters
    ----------
    revision
        A branch, tag or commit.
    tell
        Called with a line on what will be downloaded.
    progress
        Called with (files done, all files, file).

    Raises
    ------
    UserInputError
        If the repository has no packed release, or the store another release of its name.
    PrerequisiteError
        If the hub cannot be reached, or does not let this user read.
    IntegrityError
        If something is not what its checksum says; the message names it.
    """
    check_repository(repository)
    origin = f"{repository} @ {revision}"
    work = store.pulled / digest_text(f"{hub_address()}/{origin}")[:20]
    with storage_errors(store.root):
        work.mkdir(parents=True, exist_ok=True)
        packed = _packed_list(repository, revision, work)
        unpacking = Unpacking(store, packed, origin)
        unpacking.refuse_another()
        missing = unpacking.missing()
        needed = sum(file.bytes for file in missing)
        if needed > store.free_bytes():
            raise PrerequisiteError(
                f"{origin} needs {size_text(needed)} in {store.root}, which has "
                f"{size_text(store.free_bytes())} free: free some space, or choose another --store"
            )
        if missing:
            tell(f"{origin}: {len(missing)} of {len(packed.files)} files, {size_text(needed)}")
        for first in range(0, len(missing), FILES_AT_ONCE):
            some = missing[first : first + FILES_AT_ONCE]
            progress(first, len(missing), f"downloading {size_text(sum(file.bytes for file in some))}")
            _download(repository, revision, work, [file.path for file in some])
            for done, file in enumerate(some, first + 1):
                unpacking.add(file, work / file.path)
                (work / file.path).unlink()
                progress(done, len(missing), file.path)
        shutil.rmtree(work)
    return Release.open(store, packed.release, packed.version)


def _packed_list(repository: str, revision: str, work: Path) -> PackedList:
    # a list of another revision of the same branch must not stay
    (work / PACKED_LIST).unlink(missing_ok=True)
    _download(repository, revision, work, [PACKED_LIST])
    if not (work / PACKED_LIST).is_file():
        raise UserInputError(
            f"{repository} has no {PACKED_LIST}, so it has no release that can be opened: it was not "
            "written by `slvmeval export --push`, or its upload is not complete"
        )
    return read_packed_list(work / PACKED_LIST)


def pull_submissions(repository: str, revision: str, target: Path, work: Path) -> list[Path]:
    """Write the submissions of a repository into a folder, and return their paths.

    Parameters
    ----------
    work
        A temporary folder.

    Raises
    ------
    UserInputError
        If there are none, or a file of that name has other content.
    PrerequisiteError
        As :func:`pull_release`.
    """
    check_repository(repository)
    _download(repository, revision, work, [f"{SUBMISSIONS}/*.json"])
    found = sorted((work / SUBMISSIONS).glob("*.json"))
    if not found:
        raise UserInputError(f"{repository} has no submission (no {SUBMISSIONS}/*.json)")
    written = []
    for file in found:
        path, content = target / file.name, file.read_bytes()
        if path.is_file() and path.read_bytes() != content:
            raise UserInputError(f"{path} exists with other content: choose another --out")
        write_atomic(path, content)
        written.append(path)
    return written


def _download(repository: str, revision: str, folder: Path, paths: Sequence[str]) -> None:
    request: dict[str, Any] = {"type": "dataset", "repository": repository, "revision": revision}
    try:
        ask_hub(what="download", **request, allow=list(paths), ignore=[], folder=str(folder))
    except HubProblem as problem:
        where = f"{repository} @ {revision}"
        if problem.kind in ("denied", "missing"):
            raise PrerequisiteError(
                f"the hub at {hub_address()} does not show {where} to this user: check the name; if it is "
                f"private, log in (`hf auth login`, or HF_TOKEN) ({problem})"
            ) from problem
        if problem.kind == "disk":
            raise PrerequisiteError(f"{where} cannot be written below {folder}: {problem}") from problem
        raise PrerequisiteError(
            f"the download of {where} ended early ({problem}): run the same command again, which fetches "
            "only what is missing"
        ) from problem
