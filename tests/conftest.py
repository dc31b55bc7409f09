"""Fixtures that every test folder may use."""

from __future__ import annotations

import gc
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from storage_schemas import secrets
from storage_schemas.proxies import repair_proxies
from tests.own_environment import own_environment

pytest_plugins = [
    "tests.chromium",
    "tests.once",
    "tests.planted_evaluators",
    "tests.planted_ladder_judge",
    "tests.planted_suites",
    "tests.small_films",
]

# how long an example takes says how busy the machine is
settings.register_profile("here", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("here")


def pytest_configure() -> None:
    """Ask servers of tests without a proxy; take Ctrl-C, which a shell has us ignore in the background."""
    for name in list(os.environ):
        # what a user set for the programs under test is not for the tests
        if name.startswith("PREFECT_") or name in {"SLVMEVAL_STORE", "SLVMEVAL_PROFILE", "SLVMEVAL_NOTIFY"}:
            del os.environ[name]
    repair_proxies()
    # hardly anything that a test makes is in a cycle: to look every 700 objects takes a twentieth of the time
    gc.set_threshold(20_000, 20, 10)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_make_parametrize_id(val: object) -> str | None:
    """Shorten long texts in tests' names, and leave bytes out of them.

    Bytes that are made again in each process may differ, and then no test would run.
    """
    if isinstance(val, str) and len(val) > 60:
        return f"{val[:50].encode('unicode_escape').decode()}... ({len(val)} characters)"
    return "bytes" if isinstance(val, bytes) else None


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what stays to the end: models that are freed collect often."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def _quick_collections() -> None:
    """Let it pass over what earlier test files left, too: else each collection walks through all of it."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def _own_secrets() -> Iterator[None]:
    """Forget the secrets that a test file gave: they would be replaced in the texts of other tests."""
    before = dict(secrets._reported)
    yield
    secrets._reported.clear()
    secrets._reported.update(before)


@pytest.fixture(autouse=True)
def _own_environment() -> Iterator[None]:
    """Take back the variables that a command sets in this process, where it would end with them."""
    with own_environment():
        yield


@pytest.fixture(scope="session", autouse=True)
def cache_of_the_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what the tests remember of files out of the user's cache folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        # weights come from `make`; a test of a missing one asks no index
        patch.setenv("SLVMEVAL_FETCH_SMALL", "0")
        # to list all fonts of the machine takes seconds: once is enough
        patch.setenv("MPLCONFIGDIR", str(Path("build/caches/matplotlib").absolute()))
        # each client loads the authorities that it trusts: one is enough where all servers are on loopback
        patch.setenv("SSL_CERT_FILE", str(_one_authority()))
        yield


def _one_authority() -> Path:
    """Return a file with the first of the authorities whom clients trust; to load them all takes 16 ms.

    It is where processes of other users may read it, too.
    """
    import certifi

    path = Path("build/tests/one-authority.pem").absolute()
    if not path.exists():
        end = "-----END CERTIFICATE-----\n"
        first = certifi.contents().partition(end)[0] + end
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_text(first[first.index("-----BEGIN") :])
        draft.replace(path)
    return path


@pytest.fixture(scope="session")
def ffmpeg() -> str:
    """Path of the ffmpeg command of the development packages: the same one makes the films everywhere."""
    import imageio_ffmpeg

    return str(imageio_ffmpeg.get_ffmpeg_exe())


@pytest.fixture(scope="session", params=["bundled", "installed"])
def each_ffmpeg(request: pytest.FixtureRequest, ffmpeg: str) -> str:
    """Path of each ffmpeg command that is there, for tests about the command itself."""
    path = ffmpeg if request.param == "bundled" else shutil.which("ffmpeg")
    if path is None:
        pytest.skip("no ffmpeg command is installed")
    return path


@pytest.fixture(scope="session")
def model_folder() -> Path:
    """The folder of weights that SLVMEVAL_MODEL_FOLDERS names; the test is skipped where it has no u2netp."""
    folder = Path(os.environ.get("SLVMEVAL_MODEL_FOLDERS", "build/models"))
    if not (folder / "u2netp.onnx").is_file():
        pytest.skip(f"no u2netp.onnx in {folder}: slvmeval models add u2netp")
    return folder.resolve()
