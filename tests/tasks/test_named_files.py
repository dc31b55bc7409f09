"""Whatever a person names as a file is read only if it is one: nothing waits for a pipe."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.profile import load_profile
from storage_schemas.errors import SlvmevalError
from storage_schemas.judgements import read_export
from storage_schemas.row_store import read_part
from storage_schemas.store import Store
from tasks.annotation.campaign import read_settings
from tasks.annotation.exchange.mapping import load_mapping
from tasks.annotation.exchange.rows import FileForm, read_answers
from tasks.extras.prompt_suite.project import Project
from tasks.llm.usage import load_prices
from tasks.models.mirror import read_manifest
from tasks.publish.submission import read_card, read_submission
from tasks.recipe import load_recipe
from tasks.report.published import read_published
from tasks.scoring.registry import choices_from_file
from tasks.scoring.user_files import read_lines
from tasks.votes.quality import find_quality_rule

READERS: dict[str, Callable[[Path], object]] = {
    "profile.toml": load_profile,
    "recipe.toml": lambda path: load_recipe(str(path)),
    "campaign.toml": read_settings,
    "mapping.toml": load_mapping,
    "answers.csv": lambda path: read_answers(path, FileForm()),
    "prices.toml": lambda path: load_prices(str(path)),
    "submission.json": read_submission,
    "card.toml": read_card,
    "published.toml": lambda path: read_published(str(path)),
    "evaluators.toml": choices_from_file,
    "prompts.jsonl": read_lines,
    "rule.toml": lambda path: find_quality_rule(str(path)),
    "judgements.parquet": read_export,
    "scores.parquet": read_part,
    "store.json": lambda path: Store.open(path.parent),
    "drafts/p1.json": lambda path: Project(path.parent.parent).draft("p1"),
    "reviews.jsonl": lambda path: Project(path.parent).reviews(),
    ".reviews.lock": lambda path: Project(path.parent).prepare(),
    "slvmeval-model.json": lambda path: read_manifest(path.parent),
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", READERS)
def test_a_pipe_in_place_of_a_file_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    os.mkfifo(tmp_path / name)
    with pytest.raises(SlvmevalError, match="it is a named pipe, not a file"):
        READERS[name](tmp_path / name)
