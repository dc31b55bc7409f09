from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
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
IDS = [str(path.relative_to(ROOT)) for path in DOCUMENTS]
every_document = pytest.mark.parametrize("path", DOCUMENTS, ids=IDS)


@every_document
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", reading.prose(path)):
        if re.match(r"[a-z]+:", target):
            assert target.startswith("https://"), target
            continue
        name, _, anchor = target.partition("#")
        there = (path.parent / name).resolve() if name else path
        assert there.exists(), f"{path.name} links to {target}"
        if anchor:
            assert anchor in reading.anchors(there), f"{path.name} links to {target}"


@every_document
def test_no_machine_and_no_unfinished_words(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    own = r"(?<![\w.…}])/(root|home|Users|tmp|work)/"
    assert not re.search(own, text), re.search(own, text)
    unfinished = r"\b(TO" + r"DO|FIX" + r"ME|TBD|lorem)\b"
    assert not re.search(unfinished, text)
    praise = r"(?i)\b(powerful|seamless\w*|cutting-edge|blazing\w*|state-of-the-art|effortless\w*|simply)\b"
    assert not re.search(praise, text), re.search(praise, text)


@every_document
def test_generated_tables_are_up_to_date(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert generated.renewed(text) == text, "run python -m tests.docs.generated"


@every_document
def test_data_blocks_can_be_read(path: Path) -> None:
    for block in reading.blocks(path, "json"):
        for line in block.text.splitlines():
            json.loads(line)
    for block in reading.blocks(path, "toml"):
        values = tomllib.loads(block.text)
        if "base" in values:
            recipe_from(values)
        elif "store" in values:
            Profile.model_validate(values)


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


def test_decisions_are_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = set(re.findall(r"\]\((\d{4}-[\w-]+\.md)\)", read("docs/decisions/README.md")))
    assert listed == {path.name for path in folder.glob("0*.md")}


def test_documents_are_found_from_the_readme() -> None:
    text = read("README.md")
    for path in (ROOT / "docs").glob("*.md"):
        assert f"docs/{path.name}" in text, path.name


# -- licences ----------------------------------------------------------------------------------------


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


# -- other files -------------------------------------------------------------------------------------


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
    ran = subprocess.run(
        [sys.executable, "-m", "pre_commit", "validate-config"], cwd=ROOT, capture_output=True, check=False
    )
    assert ran.returncode == 0, ran.stdout


def test_the_picture_is_small() -> None:
    for path in (ROOT / "docs" / "images").iterdir():
        assert path.stat().st_size <= 300_000, path.name


def test_make_targets_that_are_named_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE))
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        named = re.findall(r"(?:^|`)make ([a-z-]+(?: [a-z]+-[a-z-]+)*)", text, re.MULTILINE)
        for target in (word for words in named for word in words.split()):
            assert target in targets, f"{path.name}: make {target}"
