from __future__ import annotations

import json
import re
import tomllib
from importlib import import_module
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.profile import Profile
from storage_schemas.errors import TRANSIENT_REASONS, Reason
from tasks.recipe import Pin, Recipe, recipe_from
from tests.docs import generated, reading

ROOT = generated.ROOT
DOCUMENTS = generated.documents()
#: What no document has.
FORBIDDEN = {
    "a folder of a machine": r"(?<![\w.…}])/(root|home|Users|tmp|work)/",
    "unfinished": r"\b(TO" + r"DO|FIX" + r"ME|TBD|lorem)\b",
    "praise": r"(?i)\b(powerful|seamless\w*|cutting-edge|blazing\w*|state-of-the-art|effortless\w*|simply)\b",
}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_each_document_can_be_relied_on(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", reading.prose(path)):
        if re.match(r"[a-z]+:", target):
            assert target.startswith("https://"), target
            continue
        name, _, anchor = target.partition("#")
        there = (path.parent / name).resolve() if name else path
        assert there.exists(), f"it links to {target}"
        assert not anchor or anchor in reading.anchors(there), f"it links to {target}"
    for what, forbidden in FORBIDDEN.items():
        assert not re.search(forbidden, text), f"{what}: {re.search(forbidden, text)}"
    assert generated.renewed(text) == text, "run python -m tests.docs.generated"
    for block in reading.blocks(path, "json"):
        for line in block.text.splitlines():
            json.loads(line)
    for block in reading.blocks(path, "toml"):
        values = tomllib.loads(block.text)
        if "base" in values:
            recipe_from(values)
        elif "store" in values:
            Profile.model_validate(values)
    targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE))
    named = re.findall(r"(?:^|`)make ([a-z-]+(?: [a-z]+-[a-z-]+)*)", text, re.MULTILINE)
    assert {word for words in named for word in words.split()} <= targets, "targets of make"


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_every_recipe_field_is_described_with_its_default() -> None:
    text = read("docs/recipes.md")
    rows: dict[str, str] = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", text, re.MULTILINE))
    for name, field in Recipe.model_fields.items():
        assert name in rows, name
        if isinstance(field.default, int | float) and not isinstance(field.default, bool):
            assert rows[name].strip() == f"`{field.default}`", name
    for name in (*Pin.model_fields, "operation", "strength", "parameters", "clips", "strengths"):
        assert f"`{name}`" in text or f"severity.{name}" in text, name


def test_every_profile_field_is_described() -> None:
    (block,) = [b for b in reading.blocks(ROOT / "docs/command-line.md", "toml") if "store" in b.text]
    assert set(tomllib.loads(block.text)) == set(Profile.model_fields)


def test_reasons_are_those_of_the_code() -> None:
    text = read("docs/sources.md").partition("## Reasons")[2]
    named = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    assert named == [reason.value for reason in Reason]
    transient = re.findall(r"^\| `(\w+)` \|", text.partition("**the machine**")[2], re.MULTILINE)
    assert set(transient) == {reason.value for reason in TRANSIENT_REASONS}


def test_documents_are_found() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = set(re.findall(r"\]\((\d{4}-[\w-]+\.md)\)", read("docs/decisions/README.md")))
    assert listed == {path.name for path in folder.glob("0*.md")}
    text = read("docs/contents.md")
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"contents.md"}
    assert {name for name in pages if f"]({name})" not in text} == set()


def test_readme_is_a_page_and_begins_with_the_two_commands() -> None:
    text = read("README.md")
    assert len(text.split()) <= 900
    commands = next(re.finditer(r"```sh\n(.*?)```", text, re.DOTALL))[1]
    assert {"make demo", "make test"} <= {line.split("#")[0].strip() for line in commands.splitlines()}


def test_the_documents_do_not_grow() -> None:
    """All pages of docs/ and their tables count, except the tables of the papers' statements."""
    papers = ROOT / "docs" / "papers"
    pages = (ROOT / "docs").rglob("*.md")
    words = {path: reading.count_words(path, tables=path.parent != papers) for path in pages}
    assert sum(words.values()) <= 50_000, "cut what another page or --help says, or a decision explains"


def family(text: str) -> set[str]:
    words = {"MIT": r"\bMIT", "BSD": r"BSD", "Apache": r"Apache", "MPL": r"MPL|Mozilla", "ISC": r"\bISC"}
    words |= {"PSF": r"PSF|Python Software Foundation", "GPL": r"GPL|General Public", "HPND": r"HPND|CMU"}
    return {name for name, pattern in words.items() if re.search(pattern, text)}


def licence_of(name: str) -> str | None:
    try:
        result: Any = metadata(name)
    except PackageNotFoundError:
        return None
    if expression := result.get("License-Expression"):
        return str(expression)
    classifiers = [line for line in result.get_all("Classifier", []) if line.startswith("License")]
    return " ".join([*classifiers, str(result.get("License") or "")[:200]])


def package(requirement: str) -> str:
    return re.split(r"[\[<>=~! ;]", requirement)[0]


def test_every_direct_dependency_has_its_licence() -> None:
    whole = tomllib.loads(read("pyproject.toml"))
    project = whole["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    groups += whole["dependency-groups"].values()
    wanted = {package(line) for group in groups for line in group} - {"slvmeval"}
    text = read("docs/licences.md").partition("## Python packages")[2]
    rows = dict(re.findall(r"^\|[^|]*\| `([\w-]+)` \| ([^|;]+)", text, re.MULTILINE))
    assert set(rows) >= wanted, wanted - set(rows)
    for name in wanted:
        result = licence_of(name)
        if result is not None:
            assert family(rows[name]) & family(result), (name, rows[name], result)


def test_what_is_not_permissive_is_named() -> None:
    text = read("docs/licences.md")
    lock = set(re.findall(r"^([a-z0-9][\w.-]*)==", read("requirements.lock"), re.MULTILINE))
    assert len(lock) > 100
    for name in sorted(lock):
        result = licence_of(name)
        if result is None:
            continue
        assert family(result) or name in text, (name, result)
        if family(result) & {"GPL", "MPL"} and name not in ("numpy", "scipy"):
            assert f"`{name}`" in text, (name, result)


def test_citation_names_this_version() -> None:
    citation = yaml.safe_load(read("CITATION.cff"))
    project = tomllib.loads(read("pyproject.toml"))["project"]
    assert citation["version"] == project["version"]
    assert citation["license"] == project["license"] == "Apache-2.0"
    assert f"## [{project['version']}]" in read("CHANGELOG.md")
    assert "Apache License" in read("LICENSE")
    assert "APPENDIX" in read("LICENSE")


def test_pre_commit_hooks_are_local_and_exist() -> None:
    config = yaml.safe_load(read(".pre-commit-config.yaml"))
    assert [repository["repo"] for repository in config["repos"]] == ["local"]
    for hook in config["repos"][0]["hooks"]:
        program = hook["entry"].split()[0]
        assert program.startswith(".venv/bin/"), hook
    validate = import_module("pre_commit.commands.validate_config").validate_config
    assert validate([str(ROOT / ".pre-commit-config.yaml")]) == 0


def test_the_picture_is_small() -> None:
    for path in (ROOT / "docs" / "images").iterdir():
        assert path.stat().st_size <= 300_000, path.name
