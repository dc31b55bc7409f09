"""CLIP's loading and running code, in this process and behind the server, on a tiny random checkpoint."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from storage_schemas.errors import PrerequisiteError, UserInputError
from tasks.llm.servers import ChatServer, NotAllowed, ServerDown
from tasks.models.clip import ServedClip
from tasks.models.clip_server.loaders import JINA, JINA_REVISIONS
from tests.once import Once

pytestmark = pytest.mark.models

KEY = secrets.token_urlsafe(12)
REPOSITORY = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def folder(once: Once) -> Path:
    from tests.tiny_models.clip import tiny_clip

    return once("tiny-clip-256", lambda folder: tiny_clip(folder, limit=48, positions=256))


@pytest.fixture(scope="module")
def clip(folder: Path) -> Any:
    from tasks.models.clip import load

    return load(folder, "cpu")


@pytest.fixture(scope="module")
def server(clip: Any) -> Iterator[ChatServer]:
    with served(clip) as running:
        yield running


@contextmanager
def served(encoder: Any) -> Iterator[ChatServer]:
    from tasks.models.clip_server.serving import make_server

    about = {"id": "tiny", "revision": "r1", "code_revision": None, "libraries": {"torch": "2"}}
    server = make_server(encoder, about, KEY, "127.0.0.1", 0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/v1"
        yield ChatServer(name="clip", url=url, model="tiny", key=KEY, patience_s=0)  # type: ignore[arg-type]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def pictures(count: int, height: int = 36, width: int = 64) -> NDArray[np.uint8]:
    return np.random.default_rng(1).integers(0, 256, (count, height, width, 3), dtype=np.uint8)


def test_rows_are_those_of_transformers_own_pipeline(folder: Path, clip: Any) -> None:
    import torch
    from PIL import Image
    from transformers import CLIPModel, CLIPProcessor

    model = CLIPModel.from_pretrained(folder, local_files_only=True).eval()
    processor = CLIPProcessor.from_pretrained(folder, local_files_only=True, backend="pil")
    shown = pictures(3)
    inputs = processor(
        text=["a red dog"], images=[Image.fromarray(picture) for picture in shown], return_tensors="pt"
    )
    with torch.inference_mode():
        expected = model(**inputs)
    np.testing.assert_allclose(clip.images(shown), expected.image_embeds.numpy(), atol=1e-6)
    np.testing.assert_allclose(clip.texts(["a red dog"], 48), expected.text_embeds.numpy(), atol=1e-6)


def test_rows_have_length_1_and_do_not_depend_on_the_batch(clip: Any) -> None:
    shown = pictures(5)
    rows = clip.images(shown)
    assert rows.shape == (5, clip.width)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(clip.images(shown[3:4]), rows[3:4], atol=1e-6)
    # a text's row does not depend on its neighbours at all
    texts = ["a dog", "two dogs on a long red boat"]
    assert np.array_equal(clip.texts(texts, 48)[1], clip.texts(texts[1:], 48)[0])


def test_a_text_is_cut_where_it_is_reported(clip: Any) -> None:
    long = "abcdefgh" * 20
    assert clip.count(long) == 162
    assert (clip.limit, clip.positions) == (48, 256)
    # a mark at the begin and one at the end
    assert np.array_equal(clip.texts([long], 48), clip.texts([long[:46] + "zzz"], 48))
    assert not np.array_equal(clip.texts([long], 48), clip.texts([long], 162))
    ends = clip.ends("a réd dog")
    # é has two bytes, and so two tokens here
    assert ends == [1, 3, 4, 4, 5, 7, 8, 9]


def test_batches_are_halved_out_of_memory(folder: Path, clip: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tasks.models.clip import load
    from tasks.models.clip_server.encoder import ClipEncoder

    small, whole, shown = load(folder, "cpu"), ClipEncoder.images, pictures(10)
    expected = clip.images(shown)

    def at_most_three(self: Any, rgb: NDArray[np.uint8]) -> Any:
        if len(rgb) > 3:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")
        return whole(self, rgb)

    monkeypatch.setattr(ClipEncoder, "images", at_most_three)
    np.testing.assert_allclose(small.images(shown), expected, atol=1e-6)
    assert small.batches.size == 2


def test_a_folder_that_is_not_a_clip_is_refused(tmp_path: Path, once: Once) -> None:
    from tasks.models.clip import load
    from tests.tiny_models.detector import tiny_detector

    with pytest.raises(PrerequisiteError, match="cannot be loaded as a CLIP"):
        load(tmp_path, "cpu")
    with pytest.raises(PrerequisiteError, match="does not embed both texts and pictures"):
        load(once("tiny-detector", tiny_detector), "cpu")
    with pytest.raises(UserInputError, match="dtype 'int4'"):
        load(tmp_path, "cpu", "int4")


def test_a_server_gives_the_same_as_the_model(clip: Any, server: ChatServer) -> None:
    client = ServedClip(server)
    assert (client.width, client.limit, client.positions) == (clip.width, 48, 256)
    assert (client.about.revision, client.about.encoder.dtype) == ("r1", "float32")
    shown, texts = pictures(4), ["a réd dog\non a boat", "abc" * 40]
    assert np.array_equal(client.images(shown), clip.images(shown))
    assert np.array_equal(client.texts(texts, 48), clip.texts(texts, 48))
    assert [client.count(text) for text in texts] == [clip.count(text) for text in texts]
    assert client.ends(texts[0]) == clip.ends(texts[0])


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("images", {"model": "tiny", "shape": [1, 2, 2, 3], "rgb": "AAAA"}, 400),
        ("images", {"model": "tiny", "shape": [1, 2, 2], "rgb": ""}, 400),
        ("images", {"model": "tiny"}, 400),
        ("texts", {"model": "tiny", "texts": ["a"], "most_tokens": 257}, 400),
        ("texts", {"model": "tiny", "texts": [], "most_tokens": 5}, 400),
        ("tokens", {"model": "tiny", "texts": "a"}, 400),
        ("texts", {"model": "big", "texts": ["a"], "most_tokens": 5}, 404),
        ("else", {"model": "tiny"}, 404),
        ("texts", None, 400),
    ],
)
def test_a_server_refuses_nonsense_and_still_answers(
    path: str, body: dict[str, Any] | None, status: int, clip: Any, server: ChatServer
) -> None:
    content = b"{" if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {KEY}"}
    asked = urllib.request.Request(f"{server.base}/{path}", data=content, headers=headers)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(asked, timeout=30)
    refused.value.close()
    assert refused.value.code == status
    assert ServedClip(server).count("a") == clip.count("a")


def test_a_server_refuses_strangers(server: ChatServer) -> None:
    with pytest.raises(NotAllowed, match="refused the key"):
        ServedClip(server.model_copy(update={"key": None})).images(pictures(1))
    with pytest.raises(NotAllowed, match="does not serve other; it has tiny"):
        ServedClip(server.model_copy(update={"model": "other"})).width  # noqa: B018


def test_a_server_out_of_memory_gets_fewer_pictures_at_once(clip: Any) -> None:
    class Small:
        width, limit, positions, dtype, device = clip.width, 48, 256, "float32", "cpu"

        def images(self, rgb: NDArray[np.uint8]) -> Any:
            if len(rgb) > 2:
                raise RuntimeError("CUDA out of memory")
            if not rgb.any():
                raise RuntimeError("a black picture")
            return clip.images(rgb)

    with served(Small()) as server:
        client = ServedClip(server)
        shown = pictures(5)
        np.testing.assert_allclose(client.images(shown), clip.images(shown), atol=1e-6)
        assert client.batches.size <= 2
        with pytest.raises(RuntimeError, match="HTTP 500: RuntimeError: a black picture"):
            client.images(pictures(1) * 0)
        assert np.array_equal(client.images(shown[:1]), clip.images(shown[:1]))


def test_a_server_that_is_away_is_waited_for_and_then_said(clip: Any) -> None:
    with served(clip) as server:
        pass
    with pytest.raises(ServerDown, match=r"model server clip at .* does not answer"):
        ServedClip(server).count("a")


#: An environment of its own has a torchvision that goes with its torch; this one may have not.
_LAUNCHER = """
import runpy, sys, torch
library = torch.library.Library("torchvision", "FRAGMENT")
for name in ("nms", "qnms"):
    if not hasattr(torch.ops.torchvision, name):
        library.define(name + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_script_runs_by_its_path_and_is_announced(folder: Path, clip: Any, tmp_path: Path) -> None:
    from tasks.llm.servers import Servers

    script = REPOSITORY / "tasks" / "models" / "clip_server"
    launcher = tmp_path / "launcher.py"
    launcher.write_text(_LAUNCHER, encoding="utf-8")
    command = [sys.executable, "-m", "infra.serving", "--store", str(tmp_path), "--name", "clip"]
    command += ["--model", "tiny", "--host", "127.0.0.1", "--start-seconds", "120", "--"]
    command += [sys.executable, str(launcher), str(script), "--loader", "transformers"]
    command += ["--model", str(folder), "--name", "tiny", "--revision", "r2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "VLLM_API_KEY": ""}
    server = subprocess.Popen(command, cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        lines = iter(server.stdout.readline, "")
        assert any("answers at" in line for line in lines)
        client = ServedClip(Servers(store=tmp_path).find("clip", "tiny"))
        shown = pictures(2)
        np.testing.assert_allclose(client.images(shown), clip.images(shown), atol=1e-6)
        assert client.about.revision == "r2"
        assert set(client.about.libraries) == {"torch", "transformers", "pillow"}
    finally:
        server.terminate()
        server.wait(60)
        if server.stdout is not None:
            server.stdout.close()
    assert not list((tmp_path / "servers").glob("*.json"))


def test_the_script_wants_a_key(folder: Path) -> None:
    script = REPOSITORY / "tasks" / "models" / "clip_server"
    environment = {name: value for name, value in os.environ.items() if name != "VLLM_API_KEY"}
    command = [sys.executable, str(script), "--loader", "transformers", "--model", str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "VLLM_API_KEY does not hold a key for the clients" in done.stderr


def test_jina_is_pinned_in_all_its_parts() -> None:
    assert set(JINA_REVISIONS) == {
        JINA,
        "jinaai/jina-clip-implementation",
        "jinaai/jina-embeddings-v3",
        "jinaai/xlm-roberta-flash-implementation",
    }
    assert all(len(revision) == 40 and int(revision, 16) for revision in JINA_REVISIONS.values())


@pytest.mark.gpu
def test_it_runs_on_a_gpu(folder: Path) -> None:
    """With the real weights where the model folder has them: the picture is nearer to what it shows."""
    from skimage import data

    from tasks.models.clip import load

    real = Path(os.environ.get("SLVMEVAL_MODEL_FOLDERS", "")) / "clip-vit-large-patch14"
    there = (real / "config.json").is_file()
    model = load(real if there else folder, "cuda")
    rows = model.images(np.stack([data.astronaut()] * 40))
    texts = model.texts(["a photo of an astronaut", "a photo of a giraffe"], model.limit)
    assert rows.shape == (40, model.width)
    assert np.isfinite(rows).all()
    if there:
        astronaut, giraffe = texts @ rows[0]
        assert astronaut > giraffe
