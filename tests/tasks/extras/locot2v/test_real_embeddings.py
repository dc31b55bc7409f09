"""LoCoT2V-Bench's event matching by a real model of sentences, all-MiniLM-L6-v2."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from storage_schemas.model import ModelServer
from tasks.extras.locot2v.text_similarity import EmbeddingModel, ServedEmbedder, TextSimilarity
from tasks.llm.answer_store import AnswerStore
from tasks.llm.embeddings import EmbeddingsClient
from tasks.llm.servers import Servers
from tasks.models.hub import ModelHub
from tests.tiny_models.embedding_server import EmbeddingServer

pytestmark = pytest.mark.models

NAME = "all-minilm-l6-v2"


@pytest.fixture(scope="module")
def server(model_folder: Path) -> Iterator[EmbeddingServer]:
    if not (model_folder / NAME).is_dir():
        pytest.skip(f"no {NAME} in {model_folder}: slvmeval models add {NAME}")
    with EmbeddingServer(ModelHub([model_folder]).path(NAME), NAME) as started:
        yield started


def compared(server: EmbeddingServer, folder: Path, first: list[str], second: list[str]) -> np.ndarray:
    model = EmbeddingModel(model=NAME, server="embeddings", most_tokens=256)
    found = Servers({"embeddings": ModelServer(url=server.url)}).find("embeddings", NAME)
    embedder = ServedEmbedder(EmbeddingsClient(found))
    embedder.check()
    (result,) = TextSimilarity(model, embedder, AnswerStore(folder)).compare([(first, second)]).values
    return result


def test_events_are_nearest_to_themselves_in_other_words(server: EmbeddingServer, tmp_path: Path) -> None:
    prompt = ["the sun rises over the sea", "a man waves to a friend", "a dog sleeps on a sofa"]
    video = ["somebody greets another person", "a puppy lies on the couch", "dawn breaks above the ocean"]
    cosines = compared(server, tmp_path, prompt, video)
    assert cosines.argmax(axis=1).tolist() == [2, 0, 1]
    assert cosines.max(axis=1) == pytest.approx([0.77, 0.53, 0.67], abs=0.2)


def test_the_published_cosine_of_two_sentences(server: EmbeddingServer, tmp_path: Path) -> None:
    # the example of the library's documentation, which prints 0.6660, 0.1046 and 0.1411
    sentences = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
    cosines = compared(server, tmp_path, sentences, sentences)
    assert cosines[np.triu_indices(3, 1)] == pytest.approx([0.6660, 0.1046, 0.1411], abs=2e-4)
    assert np.diag(cosines) == pytest.approx(1.0, abs=1e-6)
