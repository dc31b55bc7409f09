"""The settings of one campaign: which release is shown to whom, in which languages, at what pay."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError, field_validator

from storage_schemas.errors import UserInputError
from storage_schemas.model import Frozen

Language = Literal["en", "ja"]


class Campaign(Frozen):
    """One campaign.

    Parameters
    ----------
    name
        Its name: letters, digits, ``-`` and ``_``.
    release, version
        The release that is shown.
    workers_per_pair
        Votes wanted on each pair (SLVMEval, section 4.4: 5); the default is the release's recipe.
    languages
        Languages of the pages, the default first.
    aspects
        Only these; by default all aspects of the release.
    lease_minutes
        A task that is not answered in this time goes to somebody else.
    tasks_per_worker
        Most tasks of one worker; 0 is no limit.
    gold_share
        Share of tasks that are gold pairs; `gold_pairs` names them.
    most_speed
        Fastest playback that counts as seen.
    least_seen
        Share of a degraded stretch that has to be played before it can be confirmed; players are slightly
        inexact at both ends.
    least_look_s
        Seconds of each video that have to be played before the preference.
    drop_excluded
        Whether votes of excluded workers stop counting, so that their pairs return to the queue; set by the
        release's recipe (`FilterRule.drop_excluded`).
    pay_per_task, currency
        Pay for one task, for the organiser's cost estimate only.
    completion_code
        Shown to a worker who has finished, to be typed into the platform; if empty, each worker gets an own
        code.
    contact, organisation
        Who answers workers' questions; shown with the consent.
    consent
        The text that a worker agrees to, by language, in plain paragraphs; ours by default.
    """

    name: str
    release: str
    version: int
    workers_per_pair: int = Field(default=5, ge=1)
    languages: tuple[Language, ...] = ("en", "ja")
    aspects: tuple[str, ...] = ()
    lease_minutes: float = Field(default=120.0, gt=0)
    tasks_per_worker: int = Field(default=0, ge=0)
    gold_pairs: tuple[str, ...] = ()
    gold_share: float = Field(default=0.0, ge=0, le=0.5)
    most_speed: float = Field(default=2.0, ge=1, le=4)
    least_seen: float = Field(default=0.9, gt=0, le=1)
    least_look_s: float = Field(default=3.0, ge=0)
    drop_excluded: bool = False
    pay_per_task: float = Field(default=0.0, ge=0)
    currency: str = "USD"
    completion_code: str = ""
    organisation: str = ""
    contact: str = ""
    consent: dict[Language, str] = Field(default_factory=dict)

    @field_validator("name")
    @classmethod
    def _name_is_a_word(cls, value: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", value):
            raise ValueError("a campaign's name is made of letters, digits, - and _, at most 64 of them")
        return value

    @field_validator("languages")
    @classmethod
    def _some_language(cls, value: tuple[Language, ...]) -> tuple[Language, ...]:
        if not value or len(set(value)) != len(value):
            raise ValueError("name each language once, and at least one")
        return value


def load_campaign(path: Path, **over: object) -> Campaign:
    """Read a campaign from a TOML file; `over` overrides its values.

    Raises
    ------
    UserInputError
        If the file is missing, no TOML, or a value does not fit.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as problem:
        raise UserInputError(f"there is no file {path}") from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise UserInputError(f"{path} is no TOML: {problem}") from problem
    try:
        return Campaign.model_validate({**values, **over})
    except ValidationError as problem:
        first = problem.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UserInputError(f"{path}: {where}: {first['msg']}") from problem
