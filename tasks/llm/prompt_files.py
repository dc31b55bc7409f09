"""Prompts as text files: the built-in ones, listed in ``prompts.toml``, and a user's replacements."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Collection, Mapping
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from shlex import quote

from storage_schemas.errors import UserInputError
from storage_schemas.ids import digest_value
from storage_schemas.model import Frozen
from storage_schemas.regular_files import read_regular_text, why_unread

_SUFFIX = ".txt"
_EMPTY = "it is empty: write the instructions for the model, or remove the file"
#: Minimum share of equal letters at which a name counts as misspelt; the key begins with the area.
_NEAR_MISS = 0.9
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
#: The area whose files are named after aspects; packages may add aspects.
DESCRIPTIONS = "descriptions"
#: The area of whole texts for Video-Bench's steps, ``DIMENSION_STEP``, which replace templates.
STEPS = "video-bench-steps"
_STEPS = ("describe", "first_assistant", "second_assistant", "answer", "score")


class PromptFile(Frozen):
    """A prompt that a user can replace.

    Parameters
    ----------
    area, name
        Its file in a user's folder is ``AREA/NAME.txt``.
    package, folder
        Where the built-in file lies.
    words
        Where a paper prints the wording.
    used_by
        The commands that send it.
    needs, may
        Placeholders that it must and may have.
    sections
        Sections that it must have, each under a line ``# SECTION``.
    """

    area: str
    name: str
    package: str
    folder: str = "prompts"
    words: str
    used_by: str
    needs: tuple[str, ...] = ()
    may: tuple[str, ...] = ()
    sections: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """``AREA/NAME``."""
        return f"{self.area}/{self.name}"

    @property
    def ours(self) -> Traversable:
        """The built-in file."""
        return resources.files(self.package).joinpath(self.folder, self.name + _SUFFIX)

    def mistakes(self, text: str) -> list[str]:
        """Return the reasons why a text cannot replace the built-in one, one line each."""
        if not text.strip():
            return [_EMPTY]
        return [
            *placeholder_mistakes(text, self.needs, self.may),
            *(
                f"the section {name!r} is missing or empty: write a line '# {name}' and its text under it"
                for name in self.sections
                if not sections_in(text).get(name)
            ),
        ]


@cache
def prompt_catalogue() -> Mapping[str, PromptFile]:
    """Return all prompts by ``AREA/NAME``."""
    areas = tomllib.loads(resources.files(__package__).joinpath("prompts.toml").read_text(encoding="utf-8"))
    listed = (
        PromptFile(area=area, name=name, **{key: values[key] for key in values if key != "files"}, **file)
        for area, values in areas.items()
        for name, file in values["files"].items()
    )
    return {prompt.key: prompt for prompt in listed}


def prompt_text(key: str, own: str | Path | None = None) -> str:
    """Return a prompt, the user's if there is one, stripped of white space.

    Parameters
    ----------
    key
        ``AREA/NAME``.
    own
        The user's folder of prompts; empty or None for none.

    Raises
    ------
    UserInputError
        If the user's cannot be read or cannot replace the built-in one.
    """
    prompt = prompt_catalogue()[key]
    path = _own_file(key, own)
    if path is None:
        return _ours(key)
    text = _read(path)
    for mistake in prompt.mistakes(text):
        raise UserInputError(f"{path}: {mistake}")
    return text


def own_description(aspect: str, own: str | Path | None) -> str | None:
    """Return the user's description of an aspect, regardless of who defines it; None if there is none.

    Raises
    ------
    UserInputError
        If it cannot be read or is empty.
    """
    return own_text(f"{DESCRIPTIONS}/{aspect}", own)


def own_text(key: str, own: str | Path | None) -> str | None:
    """Return a text from the user that need not replace a built-in one; None if there is none.

    Raises
    ------
    UserInputError
        If it cannot be read or is empty.
    """
    path = _own_file(key, own)
    if path is None:
        return None
    text = _read(path)
    if not text:
        raise UserInputError(f"{path}: {_EMPTY}")
    return text


def check_prompts(own: str | Path) -> list[str]:
    """Return the mistakes in a user's folder of prompts, one line each.

    Packages and other benchmarks have aspects too, so a description may have any name that is not a near
    miss of a built-in one.

    Raises
    ------
    UserInputError
        If it is not a folder.
    """
    root = _folder(own)
    catalogue = prompt_catalogue()
    areas = {STEPS, *(prompt.area for prompt in catalogue.values())}
    steps = {
        f"{STEPS}/{prompt.name}_{step}"
        for prompt in catalogue.values()
        for step in _STEPS
        if prompt.area == "video-bench-criteria" and "describe" in prompt.sections
    }
    mistakes: list[str] = []
    if not any(path.is_file() for path in root.rglob("*")):
        return [f"{root} contains no prompt: `slvmeval prompts {quote(str(root))}` writes the built-in ones"]
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        inner = path.relative_to(root)
        if any(part.startswith(".") for part in inner.parts):
            continue
        key = inner.with_suffix("").as_posix()
        described = inner.parent.as_posix() == DESCRIPTIONS and not difflib.get_close_matches(
            key, catalogue, n=1, cutoff=_NEAR_MISS
        )
        if inner.suffix != _SUFFIX or (key not in catalogue and key not in steps and not described):
            hint = _hint(inner, [*catalogue, *sorted(steps)], areas)
            mistakes.append(f"{inner}: there is no such prompt{hint}")
            continue
        try:
            text = _read(path)
        except UserInputError as problem:
            mistakes.append(str(problem).replace(str(path), str(inner)))
            continue
        # whole texts and descriptions have no placeholders
        prompt = catalogue.get(key) or catalogue[f"{DESCRIPTIONS}/color"]
        mistakes += [f"{inner}: {mistake}" for mistake in prompt.mistakes(text)]
    return mistakes


def require_prompts(own: str | Path | None) -> None:
    """Check a user's folder of prompts, if any, before anything is sent.

    Raises
    ------
    UserInputError
        If it is not a folder, contains no prompt, or has mistakes: one line each.
    """
    if not own:
        return
    mistakes = check_prompts(own)
    if mistakes:
        raise UserInputError("\n".join([f"{own} cannot be used:", *mistakes]))


def own_prompts(own: str | Path | None) -> dict[str, str]:
    """Return the texts of a user's folder that differ from the built-in ones, by key."""
    if not own:
        return {}
    root = _folder(own)
    texts = {
        path.relative_to(root).with_suffix("").as_posix(): _read(path)
        for path in sorted(root.glob(f"*/*{_SUFFIX}"))
    }
    catalogue = prompt_catalogue()
    return {key: text for key, text in texts.items() if key not in catalogue or text != _ours(key)}


def prompts_digest(own: str | Path | None, areas: Collection[str]) -> str:
    """Return the checksum of a user's changed prompts in some areas; empty if there are none."""
    texts = {key: text for key, text in own_prompts(own).items() if key.partition("/")[0] in areas}
    return digest_value(texts)[:16] if texts else ""


def filled(template: str, **values: str) -> str:
    """Return a template with its placeholders replaced once: inserted text is not scanned again.

    Other braces are left unchanged, so that a template may contain JSON.

    Examples
    --------
    >>> filled('Answer {"score": 1}, at most {most}.', most="{least}")
    'Answer {"score": 1}, at most {least}.'
    """
    return _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), template)


def placeholder_mistakes(text: str, needs: Collection[str], may: Collection[str] = ()) -> list[str]:
    """Return which placeholders of a template are missing, and which are unknown.

    Examples
    --------
    >>> placeholder_mistakes("Paint {thing} red.", ["object"])
    ['the placeholder {object} is missing', 'the placeholder {thing} is unknown']
    """
    used = dict.fromkeys(_PLACEHOLDER.findall(text))
    return [
        *(f"the placeholder {{{name}}} is missing" for name in needs if name not in used),
        *(f"the placeholder {{{name}}} is unknown" for name in used if name not in {*needs, *may}),
    ]


def checked_template(text: str, needs: Collection[str], may: Collection[str] = ()) -> str:
    """Return a template whose placeholders fit.

    Raises
    ------
    ValueError
        With the first mistake.
    """
    for mistake in placeholder_mistakes(text, needs, may):
        raise ValueError(f"{mistake}: it may have {', '.join(f'{{{name}}}' for name in (*needs, *may))}")
    return text


def sections_in(text: str) -> dict[str, str]:
    """Return the sections of a text: each begins with a line ``# NAME``; names in lower case.

    Examples
    --------
    >>> sections_in("# Scale\\n1 is bad\\n# notes")
    {'scale': '1 is bad', 'notes': ''}
    """
    parts = re.split(r"^# +(.+?) *$", text, flags=re.MULTILINE)
    return {name.lower(): body.strip() for name, body in zip(parts[1::2], parts[2::2], strict=True)}


@cache
def _ours(key: str) -> str:
    return prompt_catalogue()[key].ours.read_text(encoding="utf-8").strip()


def _folder(own: str | Path) -> Path:
    root = Path(own)
    if not root.is_dir():
        raise UserInputError(f"{own} is not a folder: `slvmeval prompts {quote(str(own))}` makes one")
    return root


def _own_file(key: str, own: str | Path | None) -> Path | None:
    if not own:
        return None
    path = _folder(own) / f"{key}{_SUFFIX}"
    return path if path.is_file() else None


def _read(path: Path) -> str:
    try:
        return read_regular_text(path).strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise UserInputError(f"{path}: it cannot be read: {why_unread(problem)}") from problem


def _hint(inner: Path, keys: Collection[str], areas: Collection[str]) -> str:
    if inner.suffix != _SUFFIX:
        return f": prompts are files AREA/NAME{_SUFFIX}"
    if inner.parent.as_posix() not in areas:
        return f": the areas are {', '.join(sorted(areas))}"
    names = [key.partition("/")[2] for key in keys if key.startswith(f"{inner.parent.as_posix()}/")]
    return f": {inner.parent} has {', '.join(names)}"
