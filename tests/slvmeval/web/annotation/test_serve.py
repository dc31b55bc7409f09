"""The command: its errors, its messages, and that it serves and ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from slvmeval.cli.main import main
from slvmeval.web.annotation.serve import Serving, organiser_secret, prepare
from storage_schemas.errors import PrerequisiteError, StoreError, UserInputError
from storage_schemas.store import Store
from tasks.annotation.campaign import Campaign
from tasks.annotation.desk.desk import Desk
from tasks.annotation.installation import database_url, installation_key, media_folder
from tests.slvmeval.web.annotation.pieces import NAME, Browser, pair, put_up

ROOT = Path(__file__).parents[4]


@pytest.fixture
def published(tmp_path: Path) -> Serving:
    """A campaign that can be served; its release is not in the store."""
    return put_up(tmp_path / "store", [pair(0), pair(1)], 1)[0]


def refused(settings: Serving, name: str | None = None, **more: object) -> str:
    """Return the message with which a server is refused."""
    with (
        pytest.raises((UserInputError, PrerequisiteError, StoreError)) as problem,
        prepare(settings, name, **{"private": True, **more}),  # type: ignore[arg-type]
    ):
        pass
    return str(problem.value)


def test_where_nothing_is_published_it_says_how_to_publish(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store.create(tmp_path / "store").root
    assert main(["annotate", "serve", "demo", "--store", str(store)]) == 1
    errors = capsys.readouterr().err
    assert "neither a campaign nor a release 'demo' is published" in errors
    assert f"slvmeval annotate publish demo --store {store}" in errors
    # searching for it created nothing
    assert not (store / "annotation").exists()


def test_another_name_than_what_is_published(published: Serving) -> None:
    message = refused(published.at(campaigns=()), "stduy")
    assert "'stduy'" in message
    assert f"(there are {NAME})" in message


def test_a_name_is_a_campaign_or_a_release(published: Serving) -> None:
    other = Campaign(name="other", release="demo", version=2)
    with Desk.open(published.database, installation_key(published.root)) as desk:
        desk.organiser.publish(other, [pair(0)])
    for name, campaigns in ((NAME, (NAME,)), ("demo", ("other", NAME)), (None, ("other", NAME))):
        with prepare(published.at(port=0), name, private=True) as ready:
            assert ready.serving.campaigns == campaigns


def test_words_that_are_missing_are_said_before_the_first_worker_comes(
    published: Serving, tmp_path: Path
) -> None:
    with Desk.open(published.database, installation_key(published.root)) as desk:
        other = Campaign(name="other", release="demo", version=1)
        desk.organiser.publish(other, [pair(0).model_copy(update={"aspect": "of_a_package"})])
    message = refused(published.at(campaigns=()), "other")
    assert "of_a_package" in message
    assert "folder of texts" in refused(published.at(campaigns=(), texts=str(tmp_path / "none")), NAME)


def test_a_port_that_is_taken(published: Serving) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        message = refused(published.at(port=port))
    assert f"cannot listen on 127.0.0.1:{port}" in message
    assert "--port" in message


def test_a_database_that_is_away_or_none(published: Serving, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    message = refused(published.at(database=f"postgresql+psycopg://u:pass-word@127.0.0.1:{port}/desk"))
    assert "cannot be used" in message
    assert "pass-word" not in message
    (tmp_path / "text").write_text("no database, but a text of some length\n" * 50)
    assert "not an annotation database" in refused(published.at(database=f"sqlite:///{tmp_path}/text"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"host": "0.0.0.0"}, "--public-url"),
        ({"public_url": "pairs.example"}, "write https://HOST"),
        ({"public_url": "https://pairs.example/below"}, "write https://HOST"),
        ({"public_url": "ftp://pairs.example"}, "write https://HOST"),
        ({"platforms": ("prolifik",)}, "choose prolific or mturk"),
    ],
)
def test_options_that_do_not_go_together(published: Serving, values: dict[str, object], message: str) -> None:
    assert message in refused(published.at(**values))


def test_several_processes_need_another_database(published: Serving) -> None:
    assert "postgresql+psycopg://" in refused(published, processes=2)


def test_the_organisers_secret_stays_the_same_and_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLVMEVAL_ORGANISER_SECRET", raising=False)
    made = organiser_secret(b"k" * 32)
    assert made == organiser_secret(b"k" * 32) != organiser_secret(b"j" * 32)
    assert len(made) >= 24
    monkeypatch.setenv("SLVMEVAL_ORGANISER_SECRET", "a long enough secret")
    assert organiser_secret(b"k" * 32) == "a long enough secret"
    monkeypatch.setenv("SLVMEVAL_ORGANISER_SECRET", "short")
    with pytest.raises(UserInputError, match="at least 16"):
        organiser_secret(b"k" * 32)


def test_what_is_said_before_it_serves(published: Serving) -> None:
    open_to_all = published.at(
        port=0, host="0.0.0.0", public_url="http://10.1.2.3:80", platforms=("prolific",)
    )
    with prepare(open_to_all, NAME, private=True) as ready:
        output, warned = "\n".join(ready.lines), "\n".join(ready.warnings)
    assert "everyone who can reach this machine" in output
    assert f"http://10.1.2.3:80/c/{NAME}/enter?token=TOKEN" in output
    assert "PROLIFIC_PID={{%PROLIFIC_PID%}}" in output
    assert "plain http" in warned
    assert "may not be redistributed" in warned


def test_the_campaigns_address_is_served(tmp_path: Path) -> None:
    published = put_up(tmp_path / "store", [pair(0)], 1, public_url="https://pairs.example")[0]
    with prepare(published.at(port=0), NAME, private=True) as ready:
        assert ready.serving.address == "https://pairs.example"
        assert f"https://pairs.example/c/{NAME}/enter?token=TOKEN" in "\n".join(ready.lines)
    with prepare(published.at(port=0, public_url="https://other.example"), NAME, private=True) as ready:
        assert ready.serving.address == "https://other.example"


def test_licences_hold_unless_the_organiser_says_more(judged_store: Path) -> None:
    from storage_schemas.release import Release, release_names

    store = Store.open(judged_store)
    release = Release.open(store, release_names(store)[0])
    free = {row.source_id: row.redistributable for row in release.sources()}
    source = next(iter(free))
    media_folder(store.root).mkdir(parents=True)
    serving = Serving(str(store.root), database_url(store.root), str(media_folder(store.root)), (), port=0)
    with Desk.open(serving.database, installation_key(store.root)) as desk:
        campaign = Campaign(name="all", release=release.name, version=release.version)
        desk.organiser.publish(
            campaign, [pair(0, source_id=source), pair(1, source_id="gone-from-the-release")]
        )
    message = refused(serving, "all", private=False)
    assert f"{1 if free[source] else 2} pairs of campaign all" in message
    assert "--private-audience" in message
    with prepare(serving, "all", private=True):
        pass


def test_it_serves_as_a_process_and_ends_when_it_is_told_to(tmp_path: Path) -> None:
    serving, (token,) = put_up(tmp_path / "store", [pair(0)], 1)
    command = [sys.executable, "-m", "slvmeval", "annotate", "serve", NAME, "--store", serving.store]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [*command, "--port", "0", "--private-audience"],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    output = ""
    try:
        while "stop the server with" not in output:
            line = process.stdout.readline()
            assert line, process.communicate()
            output += line
        match = re.search(r"listening on (127\.0\.0\.1:\d+), for this machine only", output)
        assert match is not None
        assert "/organiser/" in output
        assert "secret:" in output
        address = f"http://{match[1]}"
        assert httpx.get(f"{address}/health", timeout=60).json() == {"status": "ok"}
        with Browser(address, token) as browser:
            assert browser.enter().url.path == f"/c/{NAME}/task"
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 143
    assert "Traceback" not in errors
    assert "to resume" in errors
