"""What embeds texts: pieces of long texts, cosines, and a CLIP's text tower from a model folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from storage_schemas.errors import PrerequisiteError
from tasks.llm.answer_store import AnswerStore
from tasks.models.add import add_model
from tasks.scoring.suites.locot2v.suite import Locot2vBench
from tasks.scoring.suites.locot2v.text_similarity import (
    ClipEmbedder,
    EmbeddingModel,
    TextSimilarity,
    cosines,
    pieces_of,
)
from tests.tasks.scoring.encoders import Directions, Planted
from tests.tasks.scoring.suites.locot2v.talking import (
    MODELS,
    PROMPT,
    Talk,
    film,
    setup,
    steps,
    suite,
    value,
    video,
)
from tests.tiny_models.clip import tiny_clip
from tests.tiny_models.faulty_server import FaultyServer


def similarity(folder: Path) -> tuple[TextSimilarity, Directions]:
    source = Planted(limit=7, positions=7)
    model = EmbeddingModel(kind="clip", model="words")
    return TextSimilarity(model, ClipEmbedder(source, "words"), AnswerStore(folder)), source.made


def test_a_text_that_is_longer_than_a_clip_reads_counts_by_the_tokens_of_its_pieces(tmp_path: Path) -> None:
    compares, words = similarity(tmp_path)
    # three tokens each are read: two pieces up, one of a single token right
    long = "up a b up c d right"
    (result,) = compares.compare([(["up", "right"], [long])]).values
    assert [text for text, _ in words.read] == ["up", "right", "up a b", "up c d", "right"]
    assert all(most == words.limit for _, most in words.read)
    assert result[:, 0] == pytest.approx([6 / np.hypot(6, 1), 1 / np.hypot(6, 1)], abs=1e-6)


def test_cosines_are_computed_once_each_text_once_and_kept(tmp_path: Path) -> None:
    groups = [(["up", "right"], ["up"]), (["up"], ["right", "up"])]
    compares, words = similarity(tmp_path)
    first = compares.compare(groups)
    assert [one.tolist() for one in first.values] == [[[1], [0]], [[0, 1]]]
    assert len(words.read) == 2
    again, other = similarity(tmp_path)
    assert [one.tolist() for one in again.compare(groups).values] == [one.tolist() for one in first.values]
    assert not other.read
    # nothing is paid for: a dry run says nothing of it
    assert again.estimate([(["up"], ["right"])]) is None


def test_groups_without_texts_have_no_cosines(tmp_path: Path) -> None:
    compares, words = similarity(tmp_path)
    result = compares.compare([(["up"], []), (["up"], ["up"]), ([], [])]).values
    assert [one.shape for one in result] == [(1, 0), (1, 1), (0, 0)]
    assert result[1][0, 0] == 1
    assert [one.shape for one in compares.compare([([], [])]).values] == [(0, 0)]
    assert (len(words.read), words.pictures) == (1, [])


def test_cosines_of_rows_of_any_length_and_pieces_that_hold_the_whole_text() -> None:
    result = cosines(np.array([[3.0, 0], [0, 0]]), np.array([[5.0, 0], [-2, 0], [0, 1]]))
    assert result.tolist() == [[1, -1, 0], [0, 0, 0]]
    text = "one two three four five"
    ends = [3, 7, 13, 18, 23]
    assert pieces_of("", [], 3) == [("", 1)]
    assert pieces_of(text, ends, 2) == [("one two", 2), ("three four", 2), ("five", 1)]
    assert pieces_of(text, ends, 5) == [(text, 5)]


@pytest.mark.models
def test_the_text_tower_of_a_clip_in_the_model_folder(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    add_model("tiny-clip", tiny_clip(tmp_path / "made"), folder, kind="clip", licence="-")
    sees = {"model": "sees", "server": "s"}
    with FaultyServer(Talk(), MODELS) as server:
        site = setup(tmp_path, server).model_copy(update={"model_folders": (str(folder),)})
        made = Locot2vBench(site, multimodal=sees, embeddings={"kind": "clip", "model": "tiny-clip"})
        scorer = made.scorer("overall_alignment")
        # what is loaded here runs where the models run
        assert scorer.pool == "h100"
        assert "tiny-clip" in str(scorer.settings()["embeddings"])
        scorer.check()
        same = PROMPT.model_copy(update={"details": {"base": "sun rises dog sits"}})
        (result,) = scorer.score(same, [video(film())])
        assert value(result) == pytest.approx(1, abs=1e-5)
        (other,) = scorer.score(PROMPT, [video(film())])
        assert 0 < value(other) < 0.99999
        assert steps(server) == ["describe"]


def test_a_clip_that_is_not_there_is_said(tmp_path: Path) -> None:
    with FaultyServer(Talk(), MODELS) as server:
        real = {"kind": "clip", "model": "clip-vit-large-patch14"}
        with pytest.raises(PrerequisiteError, match="clip-vit-large-patch14"):
            suite(tmp_path, server, embeddings=real).scorer("overall_alignment").check()
