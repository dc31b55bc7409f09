"""What raters read about a dimension: the models' levels, in both languages, without words for models."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from storage_schemas.errors import UserInputError
from storage_schemas.store import Store
from tasks.scoring.setup import Setup
from tasks.scoring.suites.guide import Guide, own_guide
from tasks.scoring.suites.video_bench.dimensions import DIMENSIONS
from tasks.scoring.suites.video_bench.suite import VideoBench


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store.create(tmp_path_factory.mktemp("store") / "store")


@pytest.fixture(scope="module")
def suite(store: Store) -> VideoBench:
    return VideoBench(Setup(store_path=str(store.root)))


@pytest.mark.parametrize("language", ["en", "ja"])
def test_every_dimension_has_a_guide_with_the_levels_of_its_scale(suite: VideoBench, language: str) -> None:
    for dimension in DIMENSIONS:
        guide = suite.guide(dimension.name, language)
        assert guide is not None
        assert [level for level, _ in guide.levels] == list(
            range(int(dimension.low), int(dimension.high) + 1)
        )
        text = " ".join([guide.meaning, *guide.look_at, *guide.notes, *(words for _, words in guide.levels)])
        assert not re.search(r"\b(model|JSON|samples|frames are)\b", text)
        assert (language == "ja") == bool(re.search("[ぁ-ん]", text))


def test_both_languages_have_the_same_parts(suite: VideoBench) -> None:
    for dimension in DIMENSIONS:
        english, japanese = (suite.guide(dimension.name, language) for language in ("en", "ja"))
        assert english is not None
        assert japanese is not None
        assert len(english.look_at) == len(japanese.look_at)
        assert len(english.notes) == len(japanese.notes)


def test_a_users_prompts_are_the_raters_too(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "own" / "video-bench-criteria"
    folder.mkdir(parents=True)
    text = "# meaning\nMine.\n# look at\n- Here.\n# scale\n1: a\n2: b\n3: c\n4: d\n5: e\n# notes\n- None.\n"
    (folder / "imaging_quality.txt").write_text(text)
    made = VideoBench(Setup(store_path=str(store.root), prompts=str(tmp_path / "own")))
    guide = made.guide("imaging_quality", "en")
    assert guide is not None
    assert (guide.title, guide.meaning, guide.levels[4]) == ("Imaging quality", "Mine.", (5, "e"))
    assert made.guide("imaging_quality", "fr") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# meaning\nx\n", "one line for each level"),
        ("# meaning\nx\n# scale\n1: a\n3: b\n", "one line for each level"),
        ("# scale\n1: a\n2: b\n", "'meaning' is missing"),
    ],
)
def test_a_guide_that_cannot_be_used_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "en").mkdir()
    (tmp_path / "en" / "look.txt").write_text(text)
    with pytest.raises(UserInputError, match=f"look.txt.*{message}"):
        own_guide(tmp_path, "look", "Look", "en")
    assert own_guide(tmp_path, "look", "Look", "ja") is None


def test_what_is_no_file_in_place_of_a_guide_is_named(tmp_path: Path) -> None:
    (tmp_path / "en" / "look.txt").mkdir(parents=True)
    with pytest.raises(UserInputError, match=r"look\.txt cannot be read: it is a folder, not a file"):
        own_guide(tmp_path, "look", "Look", "en")


def test_full_width_colons_are_levels_too() -> None:
    guide = Guide.read(
        "look", "Look", "ja", "# title\n見た目\n# meaning\n意味\n# scale\n1：悪い\n2：良い\n", "x"
    )
    assert (guide.title, guide.levels) == ("見た目", ((1, "悪い"), (2, "良い")))
