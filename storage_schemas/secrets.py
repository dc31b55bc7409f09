"""Secrets known to this process, and their removal from text that is stored, logged or shown.

A server may repeat a request's key in its answer or in its error message. So every text from outside passes
through :func:`strike_out` before it is shortened, and again when a row, a log record or an error message is
created. Secrets are known from environment variables, see :func:`of_variable`, and from other places if the
program reports them with :func:`know`.
"""

from __future__ import annotations

import base64
import functools
import json
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, unquote

from storage_schemas.printable import printable

#: Shorter values are not removed: they are part of ordinary words.
MIN_LENGTH = 8

_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|AUTH_STRING|CREDENTIALS?)$", re.IGNORECASE)
_PASSWORD_IN_ADDRESS = re.compile(r"://[^/@:\s]*:([^/\s]+)@")

#: Names of the secrets reported with :func:`know`, by spelling.
_reported: dict[str, str] = {}


def know(secret: str | None, name: str) -> None:
    """Remember a secret of this process; in texts, its name appears instead."""
    if secret:
        _reported.update(dict.fromkeys(_spellings(secret), name))


def know_address(address: str, name: str) -> None:
    """Remember the password, if any, in an address such as ``postgresql://user:password@host/name``."""
    _reported.update(dict.fromkeys(_passwords_in(address), name))


@functools.lru_cache(maxsize=4096)
def of_variable(name: str, value: str) -> tuple[str, ...]:
    """Return the spellings of the secret in an environment variable; empty if it has none.

    A variable holds a secret if its name ends in KEY, TOKEN, SECRET, PASSWORD, AUTH_STRING or the like, and
    its value is not the path of a file or folder. In an address, the password is the secret.

    Examples
    --------
    >>> of_variable("OPENAI_API_KEY", "sk-0123456789")[0], of_variable("HOME", "/home/me")
    ('sk-0123456789', ())
    """
    if "://" in value:
        return _passwords_in(value)
    # a base64 key may also begin with a slash, and be too long for Path.exists
    is_path = value.startswith("/") and os.path.exists(value)  # noqa: PTH110
    return () if is_path or not _SECRET_NAME.search(name) else _spellings(value)


def _passwords_in(address: str) -> tuple[str, ...]:
    found = _PASSWORD_IN_ADDRESS.search(address)
    return _spellings(found[1]) if found else ()


def _spellings(secret: str) -> tuple[str, ...]:
    """Return the spellings of a secret: plain, in an address, in JSON, in a header; longest first."""
    values = {secret, unquote(secret)}
    if ":" in secret:
        # USER:PASSWORD, sent by clients in base64
        values.add(secret.partition(":")[2])
    spelled = set()
    for value in values:
        escaped = (json.dumps(value, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False))
        encoded = base64.b64encode(value.encode("utf-8", "surrogateescape")).decode()
        spelled |= {value, quote(value, safe=""), *escaped}
        spelled |= {encoded} if len(value) >= MIN_LENGTH else set()
    return tuple(sorted((each for each in spelled if len(each) >= MIN_LENGTH), key=len, reverse=True))


def _known() -> list[tuple[str, str]]:
    """Return spelling and name of every secret, longest first: one may contain another."""
    values = dict(_reported)
    for name, value in os.environ.items():
        for spelling in of_variable(name, value):
            values.setdefault(spelling, name)
    return sorted(values.items(), key=lambda entry: len(entry[0]), reverse=True)


def strike_out(text: str) -> str:
    """Return a text with ``[NAME removed]`` in place of every secret that this process knows."""
    for spelling, name in _known():
        if spelling in text:
            text = text.replace(spelling, f"[{name} removed]")
    return text


def strike_out_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON-serialisable row without the secrets in its texts; keys and numbers are unchanged."""
    cleaned: dict[str, Any] = _strike_out_texts(row)
    return cleaned


def _strike_out_texts(value: Any) -> Any:
    # not in the row's JSON: a short password may also occur in a key or a number
    if isinstance(value, str):
        return strike_out(value)
    if isinstance(value, dict):
        return {key: _strike_out_texts(each) for key, each in value.items()}
    return [_strike_out_texts(each) for each in value] if isinstance(value, list | tuple) else value


@contextmanager
def struck_out_errors() -> Iterator[None]:
    """Remove secrets from the message of an error that leaves the block, and from its causes."""
    try:
        yield
    except Exception as problem:
        cause: BaseException | None = problem
        while cause is not None:
            cause.args = tuple(strike_out(each) if type(each) is str else each for each in cause.args)
            cause = cause.__cause__ or cause.__context__
        raise


def strike_out_of_logs() -> None:
    """Remove secrets and control characters from all log records of this process, including tracebacks."""
    make = logging.getLogRecordFactory()
    if isinstance(make, _CleanRecords):
        return
    logging.setLogRecordFactory(_CleanRecords(make))


class _CleanRecords:
    """Creates log records without secrets and control characters, for all loggers and handlers."""

    def __init__(self, make: Any) -> None:
        self._make = make

    def __call__(self, *arguments: Any, **options: Any) -> logging.LogRecord:
        record: logging.LogRecord = self._make(*arguments, **options)
        try:
            text = record.getMessage()
        except Exception:  # noqa: BLE001 # logging reports a wrong format itself
            return record
        struck = printable(strike_out(text), keep="\n\r\t")
        if struck != text:
            record.msg, record.args = struck, None
        if record.exc_info and record.exc_info[0] is not None:
            trace = logging.Formatter().formatException(record.exc_info)
            struck = printable(strike_out(trace), keep="\n\r\t")
            if struck != trace:
                # handlers print this text instead of the traceback
                record.exc_text, record.exc_info = struck, None
        return record
