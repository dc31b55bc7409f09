"""Commands of this program as messages print them: quoted, so that they can be pasted into a shell."""

import shlex
from contextlib import suppress
from pathlib import Path

from storage_schemas.errors import UserInputError


def command_line(*words: str | Path, store: str | Path | None = None) -> str:
    """Return a command with the words after ``slvmeval``.

    Parameters
    ----------
    words
        Command, arguments and options, not quoted.
    store
        Folder of its store, for :func:`store_words`.
    """
    return shlex.join(["slvmeval", *map(str, words), *(() if store is None else store_words(store))])


def store_words(store: str | Path) -> list[str]:
    """Return the option for a store; nothing for the store that commands use by default."""
    from infra.profile import load_profile

    # a command that names another profile does not read a damaged one in the environment
    with suppress(UserInputError):
        if Path(load_profile().store).expanduser().resolve() == Path(store).expanduser().resolve():
            return []
    return ["--store", str(store)]
