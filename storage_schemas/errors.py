"""The error hierarchy and the fixed list of reasons for setting an item aside.

A message says what is wrong, where, and what to do. Code that processes many items catches
:class:`SetAside`, stores it as a row (see ``storage_schemas/set_aside.py``) and continues; every other
:class:`SlvmevalError` ends the command with its message and no traceback.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable
from enum import StrEnum

from storage_schemas.printable import printable
from storage_schemas.secrets import strike_out


class Reason(StrEnum):
    """Why a source, clip or pair was set aside. Stored in releases: never rename a value."""

    # the video
    NOT_A_VIDEO = "not_a_video"
    EMPTY_FILE = "empty_file"
    NO_VIDEO_STREAM = "no_video_stream"
    TRUNCATED_VIDEO = "truncated_video"
    UNDECODABLE_VIDEO = "undecodable_video"
    NO_FRAMES = "no_frames"
    TOO_SHORT = "too_short"
    PICTURE_GAP = "picture_gap"
    VIDEO_MISSING = "video_missing"
    VIDEO_CHANGED = "video_changed"
    STILL_BEING_WRITTEN = "still_being_written"
    DUPLICATE_CONTENT = "duplicate_content"
    # the captions and the id
    CAPTIONS_MISSING = "captions_missing"
    CAPTIONS_NOT_UTF8 = "captions_not_utf8"
    CAPTIONS_MALFORMED = "captions_malformed"
    CAPTIONS_EMPTY = "captions_empty"
    CAPTION_NOT_ANALYSED = "caption_not_analysed"
    CLIP_BOUNDARIES_MISSING = "clip_boundaries_missing"
    CLIPS_OUT_OF_ORDER = "clips_out_of_order"
    CLIP_PAST_END = "clip_past_end"
    UNSAFE_ID = "unsafe_id"
    ID_TOO_LONG = "id_too_long"
    DUPLICATE_ID = "duplicate_id"
    UNSAFE_PATH = "unsafe_path"
    BAD_ARCHIVE = "bad_archive"
    BAD_CONTENT_CATEGORY = "bad_content_category"
    # the pair
    TOO_FEW_CLIPS = "too_few_clips"
    TOO_FEW_ELIGIBLE_CLIPS = "too_few_eligible_clips"
    NOT_DIFFERENT_ENOUGH = "not_different_enough"
    NOTHING_FOUND = "nothing_found"
    NO_ARRANGEMENT = "no_arrangement"
    VERIFICATION_FAILED = "verification_failed"
    CHECKSUM_MISMATCH = "checksum_mismatch"
    WORKER_DIED = "worker_died"
    # the machine: retried automatically by the next build
    OUT_OF_SPACE = "out_of_space"
    READ_ONLY_STORE = "read_only_store"
    STORAGE_AWAY = "storage_away"
    DAMAGED_ARTIFACT = "damaged_artifact"
    INTERNAL_ERROR = "internal_error"


#: Reasons caused by the machine, not by the input: the next build retries the item.
TRANSIENT_REASONS = frozenset(
    {
        Reason.OUT_OF_SPACE,
        Reason.READ_ONLY_STORE,
        Reason.STORAGE_AWAY,
        Reason.DAMAGED_ARTIFACT,
        Reason.INTERNAL_ERROR,
    }
)

#: Reasons of a file system that temporarily cannot be written or read.
AWAY_REASONS = frozenset({Reason.READ_ONLY_STORE, Reason.STORAGE_AWAY})


class SlvmevalError(Exception):
    """Base class of all errors raised deliberately by this project.

    Its texts contain no secrets and no control characters except line breaks: those in file names are
    escaped.
    """

    def __init__(self, *arguments: object) -> None:
        super().__init__(*(_shown(each) if type(each) is str else each for each in arguments))


def _shown(text: str) -> str:
    return printable(strike_out(text), keep="\n\t")


class UserInputError(SlvmevalError):
    """An invalid command line, recipe, profile or path."""


class UsageError(UserInputError):
    """Options that contradict each other, or a wrong value of one; the command line exits with code 2."""


class PrerequisiteError(SlvmevalError):
    """Something must be installed, downloaded or started first; the message says how."""


class StoreError(SlvmevalError):
    """The store cannot be read or written (schema version, permissions, damage)."""


class IntegrityError(StoreError):
    """Stored data does not match its manifest."""


class SetAside(SlvmevalError):
    """One item cannot be used; it becomes a row with this reason and does not affect others.

    Parameters
    ----------
    reason
        A member of :class:`Reason`.
    message
        What is wrong, where, and what to do.
    """

    def __init__(self, reason: Reason, message: str) -> None:
        # a row is one line, whatever file names it contains
        super().__init__(reason, printable(message, keep="\t"))
        self.reason = reason
        self.message = str(self.args[1])

    def __str__(self) -> str:
        return f"{self.reason.value}: {self.message}"


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return `` Did you mean …?`` with the nearest known name, or an empty text.

    Examples
    --------
    >>> did_you_mean("rond", ["rounds", "fps"]), did_you_mean("x", ["rounds"])
    (" Did you mean 'rounds'?", '')
    """
    near = difflib.get_close_matches(name, list(names), n=1)
    return f" Did you mean {near[0]!r}{_difference(name, near[0])}?" if near else ""


def _difference(name: str, near: str) -> str:
    """Describe the difference between two names that look alike, as names from two systems may."""
    if unicodedata.normalize("NFC", name) != unicodedata.normalize("NFC", near):
        return ""
    return f" (the same letters in another Unicode form: {near!a}, not {name!a})"


def suggestion(name: str, names: Iterable[str], otherwise: str = "it has", more: Iterable[str] = ()) -> str:
    """Return the end of a message about an unknown name: the nearest known names, else all of them.

    Names in `more` may be the nearest, but are not listed.

    Examples
    --------
    >>> suggestion("rond", ["rounds", "fps"]), suggestion("x", ["rounds", "fps"], "there are")
    ('did you mean rounds?', 'there are rounds, fps')
    """
    listed = list(names)
    near = difflib.get_close_matches(name, [*listed, *more], n=2)
    if near:
        return f"did you mean {' or '.join(one + _difference(name, one) for one in near)}?"
    return f"{otherwise} {', '.join(listed)}" if listed else "there are none"
