"""The command: its errors, its messages, and that it serves and ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from slvmeval.web.annotation.serve import Serving, organiser_secret, prepare
from storage_schemas.errors import PrerequisiteError, StoreError, UserInputError
from storage_schemas.store import Store
from tasks.annotation.campaign import Campaign
from tasks.annotation.desk.desk import Desk
from tasks.annotation.installation import installation_key, media_folder
from tests.once import Once
from tests.slvmeval.cli.running import Run, lacks
from tests.slvmeval.web.annotation.conftest import Study
from tests.slvmeval.web.annotation.pieces import NAME, Browser, pair, put_up, serving_of
from tests.tasks.publish.judging import build_wide

ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="session")
def published(once: Once) -> Serving:
    """A campaign that can be served, and that nobody changes; its release is not in the store."""
    folder = once("published", lambda draft: put_up(draft / "store", [pair(0), pair(1)], 1))
    return serving_of(folder / "store", campaigns=())


def refused(settings: Serving, name: str | None = None, **more: object) -> str:
    """Return the message with which a server is refused."""
    with (
        pytest.raises((UserInputError, PrerequisiteError, StoreError)) as problem,
        prepare(settings, name, **{"private": True, **more}),  # type: ignore[arg-type]
    ):
        pass
    return str(problem.value)


def test_where_nothing_is_published_it_says_how_to_publish(tmp_path: Path, run: Run) -> None:
    store = Store.create(tmp_path / "store").root
    errors = run("annotate", "serve", "demo", "--store", store, code=1).err
    assert "neither a campaign nor a release 'demo' is published" in errors
    assert f"slvmeval annotate publish demo --store {store}" in errors
    assert not (store / "annotation").exists(), "searching for it created nothing"


def test_a_name_is_a_campaign_or_a_release(study: Study, tmp_path: Path) -> None:
    study.publish(2)
    serving = study.serving.at(campaigns=(), port=0)
    with study.desk() as desk:
        desk.organiser.publish(Campaign(name="other", release="demo", version=2), [pair(0)])
    for name, campaigns in ((NAME, (NAME,)), ("demo", ("other", NAME)), (None, ("other", NAME))):
        with prepare(serving, name, private=True) as ready:
            assert ready.serving.campaigns == campaigns
    # words that are missing are reported before the first worker comes
    with study.desk() as desk:
        pairs = [pair(0, aspect="of_a_package")]
        desk.organiser.publish(Campaign(name="another", release="demo", version=1), pairs)
    assert "of_a_package" in refused(serving, "another")
    assert "folder of texts" in refused(serving.at(texts=str(tmp_path / "none")), NAME)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"host": "0.0.0.0"}, "--public-url"),
        ({"public_url": "a.example"}, "write https://HOST"),
        ({"public_url": "https://a.example/b"}, "write https://HOST"),
        ({"public_url": "ftp://a"}, "write https://HOST"),
        ({"platforms": ("prolifik",)}, "choose prolific, prolific-unsigned, mturk"),
        ({"platforms": ("prolific", "prolific-unsigned")}, "choose one; the second needs no signature"),
    ],
)
def test_options_that_do_not_go_together(published: Serving, values: dict[str, object], message: str) -> None:
    assert message in refused(published.at(**values))


def test_what_is_not_there_or_taken_is_named(published: Serving, tmp_path: Path) -> None:
    assert not lacks(refused(published, "stduy"), "'stduy'", f"(there are {NAME})")
    assert "postgresql+psycopg://" in refused(published, processes=2), "SQLite is for one process"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert not lacks(refused(published.at(port=port)), f"cannot listen on 127.0.0.1:{port}", "--port")
    # a database that is away, or none
    message = refused(published.at(database=f"postgresql+psycopg://u:pass-word@127.0.0.1:{port}/desk"))
    assert "cannot be used" in message
    assert "pass-word" not in message
    (tmp_path / "text").write_text("no database, but a text of some length\n" * 50)
    assert "not an annotation database" in refused(published.at(database=f"sqlite:///{tmp_path}/text"))


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


def test_what_is_reported_before_it_serves(published: Serving) -> None:
    everywhere = {"host": "0.0.0.0", "public_url": "http://10.1.2.3:80"}
    with prepare(published.at(port=0, platforms=("prolific",), **everywhere), NAME, private=True) as ready:
        output, warned = "\n".join(ready.lines), "\n".join(ready.warnings)
    link = f"http://10.1.2.3:80/c/{NAME}/enter?token=TOKEN"
    assert not lacks(output, "everyone who can reach this machine", link, "PROLIFIC_PID={{%PROLIFIC_PID%}}")
    assert not lacks(warned, "plain http", "may not be redistributed")


def test_the_campaigns_address_is_served(study: Study) -> None:
    study.publish(1, public_url="https://pairs.example")
    for given, expected in (("", "https://pairs.example"), ("https://other.example",) * 2):
        with prepare(study.serving.at(port=0, public_url=given), NAME, private=True) as ready:
            assert ready.serving.address == expected
            assert f"{expected}/c/{NAME}/enter?token=TOKEN" in "\n".join(ready.lines)


def test_licences_hold_unless_the_organiser_says_more(tmp_path: Path) -> None:
    release = build_wide(tmp_path, 1)
    store, (source,) = release.store, release.sources()
    assert source.redistributable
    media_folder(store.root).mkdir(parents=True)
    serving = serving_of(store.root, campaigns=()).at(port=0)
    with Desk.open(serving.database, installation_key(store.root)) as desk:
        campaign = Campaign(name="all", release=release.name, version=release.version)
        pairs = [pair(0, source_id=source.source_id), pair(1, source_id="gone-from-the-release")]
        desk.organiser.publish(campaign, pairs)
    message = refused(serving, "all", private=False)
    assert not lacks(message, "1 pairs of campaign all", "--private")
    with prepare(serving, "all", private=True):
        pass


def test_it_serves_as_a_process_and_ends_when_it_is_told_to(study: Study) -> None:
    study.publish(1)
    words = ["annotate", "serve", NAME, "--store", str(study.root), "--port", "0", "--private"]
    process = subprocess.Popen(
        [sys.executable, "-m", "slvmeval", *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
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
        assert not lacks(output, "/organiser/", "secret:")
        with Browser(f"http://{match[1]}", study.tokens[0]) as browser:
            assert browser.http.get("/health").json() == {"status": "ok"}
            assert browser.enter().url.path == f"/c/{NAME}/task"
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 143
    assert "Traceback" not in errors
    assert "to resume" in errors
