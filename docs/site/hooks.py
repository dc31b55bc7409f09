"""What the site of documents has besides the files in `docs/`: the README, linked sources, references.

MkDocs calls these functions by their names.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

import typer.main
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
#: Folder of the pages that show files from outside `docs/`.
SOURCE = "source"
#: Folder of the pages that are made from the program.
REFERENCE = "reference"
COMMANDS = f"{REFERENCE}/command-line"

_LINK = re.compile(r"(\]\()([^)\s]+)(\))")
#: What stands behind a block's language is for the tests.
_FENCE = re.compile(r"^(```\w+) .+$", re.MULTILINE)
_LANGUAGES = {".py": "python", ".toml": "toml", ".j2": "html", ".cff": "yaml"}
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
#: A role of Sphinx before code, in docstrings: ``:func:`name```.
_ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):(<a [^>]*>)?(<code>)~?")
_CELL = re.compile(r"<td[^>]*>.*?</td>", re.DOTALL)
_CODE = re.compile(r"<code>[^<]*</code>")

#: Runs the theme's search in a page of a file address: see the script. The theme takes its own from another
#: server unless it finds a name like this one.
SEARCH_FROM_DISK = "assets/iframe-worker.js"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Let the search work from the disk, and give each command's page its place in the menu."""
    config.extra["polyfills"] = [SEARCH_FROM_DISK]
    pages = [{f"slvmeval {name}": f"{COMMANDS}/{name}.md"} for name in sorted(_slvmeval().commands)]
    (reference,) = (entry["Reference"] for entry in config.nav or () if "Reference" in entry)
    (commands,) = (entry for entry in reference if "Commands" in entry)
    commands["Commands"] = [{"All commands": f"{COMMANDS}/index.md"}, *pages]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the README as the first page, the files that pages link to, and the references."""
    made = {
        "index.md": (ROOT / "README.md").read_text(encoding="utf-8"),
        "notebook.md": _notebook(DOCS / "notebook.ipynb"),
        **_references(),
    }
    wanted = {target for file in [*DOCS.rglob("*.md"), ROOT / "README.md"] for target in _linked(file)}
    for path in sorted(wanted):
        made[_page_of(path)] = _shown(path)
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    script = Path(__file__).with_name("iframe-worker.js").read_text(encoding="utf-8")
    files.append(File.generated(config, SEARCH_FROM_DISK, content=script))
    return files


def _notebook(path: Path) -> str:
    """Return a notebook as a page: its texts, its code, and what it gave when it was run."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            picture = output.get("data", {}).get("image/jpeg")
            if picture is not None:
                parts.append(f"![What this cell shows](data:image/jpeg;base64,{''.join(picture.split())})")
            elif "text" in output:
                parts.append(f"```text\n{''.join(output['text']).rstrip()}\n```")
        if len(parts) == 1:
            parts.append(f"[Download this notebook]({path.name}).")
    return "\n\n".join(parts) + "\n"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links that leave `docs/` to the pages that show their targets."""
    name = page.file.src_uri
    folder = _folder_of(name)

    def moved(match: re.Match[str]) -> str:
        target, hash_, anchor = match[2].partition("#")
        path = _inside(folder, target)
        if path is None:
            return match[0]
        place = _in_docs(path) or _page_of(path)
        relative = posixpath.relpath(place, posixpath.dirname(name) or ".")
        return f"{match[1]}{relative}{hash_}{anchor}{match[3]}"

    return _FENCE.sub(r"\1", _LINK.sub(moved, markdown))


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Show code as a reader of the document's file sees it: no roles before it, no escaped bars in tables."""
    if page.file.src_uri.startswith(f"{SOURCE}/"):
        return html
    html = _ROLE.sub(lambda role: (role[1] or "") + role[2], html)

    def without_escapes(cell: re.Match[str]) -> str:
        return _CODE.sub(lambda code: code[0].replace(r"\|", "|"), cell[0])

    return _CELL.sub(without_escapes, html)


def _folder_of(name: str) -> Path:
    """Return the folder in the repository that a page's links are relative to."""
    if name == "index.md":
        return ROOT
    if name.startswith(f"{SOURCE}/"):
        return ROOT / PurePosixPath(name).relative_to(SOURCE).parent
    return (DOCS / name).parent


def _linked(file: Path) -> Iterator[Path]:
    for _, target, _ in _LINK.findall(file.read_text(encoding="utf-8")):
        path = _inside(file.parent, target.partition("#")[0])
        if path is not None and _in_docs(path) is None:
            yield path


def _inside(folder: Path, target: str) -> Path | None:
    """Return the file or folder of the repository that a link means; None for other links."""
    if not target or ":" in target:
        return None
    path = Path(os.path.normpath(folder / target))
    return path if path.is_relative_to(ROOT) and path.exists() else None


def _in_docs(path: Path) -> str | None:
    """Return the name of a file's page if it has one of its own."""
    if path == ROOT / "README.md":
        return "index.md"
    return path.relative_to(DOCS).as_posix() if path.is_file() and path.is_relative_to(DOCS) else None


def _page_of(path: Path) -> str:
    name = path.relative_to(ROOT).as_posix()
    return f"{SOURCE}/{name}" if path.suffix == ".md" else f"{SOURCE}/{name}.md"


def _shown(path: Path) -> str:
    """Return the page that shows a file, or the files of a folder."""
    name = path.relative_to(ROOT).as_posix()
    if path.is_dir():
        parts = [one for one in sorted(path.iterdir()) if one.is_file()]
        return f"# {name}/\n\n" + "\n".join(f"## {one.name}\n\n{_block(one)}" for one in parts)
    return path.read_text(encoding="utf-8") if path.suffix == ".md" else f"# {name}\n\n{_block(path)}"


def _block(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall(r"`+", text)), 3)
    return f"{fence}{_LANGUAGES.get(path.suffix, 'text')}\n{text.rstrip()}\n{fence}\n"


def _references() -> dict[str, str]:
    """Return the pages made from the program, by name."""
    from slvmeval import __all__ as public

    command = _slvmeval()
    pages = {f"{COMMANDS}/index.md": _overview(command)}
    for name, one in sorted(command.commands.items()):
        pages[f"{COMMANDS}/{name}.md"] = "\n".join(_command(one, f"slvmeval {name}", 1))
    entries = "\n".join(f"::: slvmeval.{name}\n" for name in sorted(public, key=_kind_first))
    pages[f"{REFERENCE}/python.md"] = (
        f"# Python interface\n\nAll public names of the package. [Examples](../python-api.md).\n\n{entries}"
    )
    return pages


@cache
def _slvmeval() -> Any:
    """Return the whole command; its classes are click's, which Typer has copies of."""
    from slvmeval.cli.main import app

    return typer.main.get_command(app)


def _kind_first(name: str) -> tuple[bool, str]:
    return name[0].isupper(), name


def _overview(command: Any) -> str:
    rows = [
        f"| [`slvmeval {name}`]({name}.md) | {_first_line(one)} |"
        for name, one in sorted(command.commands.items())
    ]
    head = "# Commands\n\nEverything that `--help` says.\n\n| command | |\n|---|---|"
    return "\n".join([head, *rows, ""])


def _first_line(command: Any) -> str:
    return (command.help or "").strip().split("\n\n")[0].replace("\n", " ").replace("|", r"\|")


def _command(command: Any, path: str, level: int) -> Iterator[str]:
    """Yield the lines on one command and those in it."""
    yield f"{'#' * level} {path}\n"
    yield f"{(command.help or '').strip()}\n"
    if hasattr(command, "commands"):
        for name, one in sorted(command.commands.items()):
            yield from _command(one, f"{path} {name}", level + 1)
        return
    context = command.context_class(command, info_name=path)
    yield f"```text\n{_ANSI.sub('', command.get_usage(context)).strip()}\n```\n"
    rows = [row for one in command.get_params(context) if (row := _option(one, context))]
    if rows:
        yield "| option | |\n|---|---|"
        yield from rows
        yield ""


def _option(one: Any, context: Any) -> str:
    if getattr(one, "hidden", False):
        return ""
    record: Any = one.get_help_record(context)
    if record is None:
        return ""
    names, about = (_ANSI.sub("", text).replace("|", r"\|").replace("\n", " ") for text in record)
    return f"| `{names.strip()}` | {about.strip()} |"
