"""What tests of flows share: builds that are quick, and options of builds with one aspect."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flows.declaration import FlowDeclaration
from flows.release.options import BuildOptions
from infra.profile import Profile
from storage_schemas.analysis import CaptionAnalysis
from tasks.captions.rules import RulesAnalyser
from tests.flows.prefect_servers import PrefectServer
from tests.flows.small_builds import AddFilm, only

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

RunRecorded = Callable[[FlowDeclaration[Any, Any, Any], object], tuple[dict[str, Any], Any]]

_ANALYSE = RulesAnalyser.analyse
_KNOWN: dict[str, CaptionAnalysis] = {}


def _remembered(
    analyser: RulesAnalyser, captions: list[str], journal: object = None
) -> list[CaptionAnalysis]:
    new = [caption for caption in dict.fromkeys(captions) if caption not in _KNOWN]
    _KNOWN.update(zip(new, _ANALYSE(analyser, new), strict=True))
    return [_KNOWN[caption] for caption in captions]


@pytest.fixture(autouse=True)
def quick_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let builds of this process analyse each caption once, and not wait for the disk."""
    monkeypatch.setattr(RulesAnalyser, "analyse", _remembered)
    monkeypatch.setattr("os.fsync", lambda _handle: None)


@pytest.fixture
def simple(options: BuildOptions) -> BuildOptions:
    """Build one aspect from tmp_path/videos into tmp_path/store."""
    return only(options, "aesthetics")


@pytest.fixture
def video(add_film: AddFilm, tmp_path: Path) -> Path:
    """The film in tmp_path/videos, beside its captions."""
    return add_film(tmp_path / "videos", 1)


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefectServer]:
    """A Prefect server for the tests of the group `prefect-server`, none of which ends it."""
    with PrefectServer(tmp_path_factory.mktemp("shared-server")) as made:
        yield made


@pytest.fixture
def run_recorded(
    shared_server: PrefectServer, client: SyncPrefectClient, monkeypatch: pytest.MonkeyPatch
) -> RunRecorded:
    """Run a flow in this process; return what the shared server has of it, and the summary of its result."""
    from flows.command_runs import run_flow
    from tests.flows.on_server import known_runs, recorded

    monkeypatch.setenv("PREFECT_API_URL", shared_server.api)

    def ran(flow: FlowDeclaration[Any, Any, Any], options: object) -> tuple[dict[str, Any], Any]:
        before = known_runs()
        result = run_flow(flow, options, Profile(workers=2), quiet=True)
        return recorded(before), result.summary()

    return ran


@pytest.fixture
def client(shared_server: PrefectServer) -> Iterator[SyncPrefectClient]:
    """A client of the shared server."""
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings({PREFECT_API_URL: shared_server.api}), get_client(sync_client=True) as made:
        yield made
