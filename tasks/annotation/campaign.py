"""The settings of one campaign: its release, workers, languages and pay."""

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
        The campaign's name: letters, digits, ``-`` and ``_``.
    release, version
        The release that is shown.
    workers_per_pair
        Votes needed on each pair (SLVMEval, section 4.4: 5); the default is the release's recipe.
    languages
        Languages of the pages; the first is the default.
    aspects
        Aspects to show; by default all of the release.
    lease_minutes
        A task that is not answered within this time goes to another worker.
    tasks_per_worker
        Maximum number of tasks per worker; 0 for no limit.
    gold_share
        Share of tasks that are gold pairs; `gold_pairs` names them.
    most_speed
        Fastest playback that counts as seen.
    least_seen
        Share of a degraded stretch that must be played before it can be confirmed; players are slightly
        inexact at both ends.
    least_look_s
        Seconds of each video that must be played before the preference.
    drop_excluded
        Whether votes of excluded workers stop counting, so that their pairs return to the queue; set by the
        release's recipe (`FilterRule.drop_excluded`).
    pay_per_task, currency
        Pay for one task, for the organiser's cost estimate only.
    completion_code
        Code that workers enter on the platform when they have finished; if empty, each worker gets a code of
        their own.
    contact, organisation
        Who answers workers' questions; shown on the consent page.
    consent
        The text that workers agree to, by language, in plain paragraphs; ours by default.
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
            raise ValueError("a campaign's name must be at most 64 letters, digits, - and _")
        return value

    @field_validator("languages")
    @classmethod
    def _some_language(cls, value: tuple[Language, ...]) -> tuple[Language, ...]:
        if not value or len(set(value)) != len(value):
            raise ValueError("name at least one language, and each only once")
        return value


def load_campaign(path: Path, **over: object) -> Campaign:
    """Read a campaign from a TOML file; `over` overrides its values.

    Raises
    ------
    UserInputError
        If the file is missing or not TOML, or a value is invalid.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as problem:
        raise UserInputError(f"{path} does not exist") from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise UserInputError(f"{path} is not valid TOML: {problem}") from problem
    try:
        return Campaign.model_validate({**values, **over})
    except ValidationError as problem:
        first = problem.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UserInputError(f"{path}: {where}: {first['msg']}") from problem
