"""What the installation's key signs: workers' names, links, codes, and unpredictable draws."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re

from storage_schemas.errors import UserInputError
from storage_schemas.names import NAME_RULE, is_name
from tasks.annotation.campaign import Campaign

_CODE_LETTERS = 8


#: Places in a platform's address that it did not fill, and what scripts write for nothing.
_NOBODY = re.compile(
    r"\{\{.*\}\}|\$\{.*\}|\[\[.*\]\]|%%.*%%|(?i:(worker|assignment|participant|prolific)[_ -]?p?id)"
    r"|null|NULL|none|None|undefined|nan|NaN|#?N/A|ASSIGNMENT_ID_NOT_AVAILABLE"
)


def worker_hash(key: bytes, platform: str, identity: str) -> str:
    """Return a worker's name in this installation: 32 hexadecimal digits that reveal nothing without the key.

    Raises
    ------
    UserInputError
        If the platform's name is not valid, or the identity is empty or a placeholder.
    """
    if not is_name(platform):
        raise UserInputError(f"{platform!r:.100} is not a valid platform name: use {NAME_RULE}")
    if not identity.strip():
        raise UserInputError("a worker's identity is empty")
    if _NOBODY.fullmatch(identity.strip()):
        raise UserInputError(
            f"{identity.strip()!r:.60} is not a person: the platform did not put a worker's id in its place; "
            "look at the address of the study there"
        )
    return _digest(key, f"{platform}:{identity.strip()}").hex()[:32]


def _digest(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).digest()


class DeskKey:
    """The installation's key; nothing that it signs can be forged or guessed without it."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def worker_name(self, platform: str, identity: str) -> str:
        """Return the name of a platform's worker in this installation; see :func:`worker_hash`."""
        return worker_hash(self._key, platform, identity)

    def token_hash(self, token: str) -> str:
        """Return the stored form of a link's token."""
        return _digest(self._key, f"token:{token.strip()}").hex()

    def chance(self, *parts: str | int) -> float:
        """Return a number in [0, 1) that is determined by `parts`."""
        return int.from_bytes(_digest(self._key, "\x1f".join(map(str, parts)))[:7], "big") / (1 << 56)

    def completion_code(self, settings: Campaign, worker: str, screened_out: bool = False) -> str:
        """Return the campaign's completion code, or the worker's own."""
        if screened_out and settings.screen_out_code:
            return settings.screen_out_code
        digest = _digest(self._key, f"code:{settings.name}:{worker}")
        return settings.completion_code or base64.b32encode(digest).decode()[:_CODE_LETTERS]
