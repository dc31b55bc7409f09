"""A campaign on synthetic videos, a real server for it, and workers who use HTTP."""

from __future__ import annotations

import json
import os
import random
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from slvmeval.web.annotation.app import create_app
from slvmeval.web.annotation.serve import Serving, options
from storage_schemas.store import Store
from tasks.annotation.campaign import Campaign
from tasks.annotation.desk.desk import Desk
from tasks.annotation.installation import database_url, installation_key, media_folder
from tasks.annotation.pair_task import PairTask, PromptClip, Stretch

NAME = "study"
PAGE = {"Accept": "text/html,application/xhtml+xml"}
SECONDS = 30.0


class Hands:
    """A clock that tests set; all times of the desk come from it."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 22, 9, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def on(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


#: Start of the fast clock in seconds since 1970, shared by all processes of one measurement.
BEGAN_VARIABLE = "SLVMEVAL_TEST_CLOCK_BEGAN"


def fast_clock() -> datetime:
    """Return a time that runs 2,000 times as fast as the real one, so that tests need not wait for films."""
    passed = time.time() - float(os.environ.setdefault(BEGAN_VARIABLE, str(time.time())))
    return datetime(2026, 11, 22, 9, 0, tzinfo=UTC) + timedelta(seconds=2000 * passed)


def pair(number: int, **values: Any) -> PairTask:
    """Return a synthetic pair: aspects in turn, two stretches on the low side."""
    words = f"of pair {number}: a red ball rolls"
    clips = tuple(PromptClip(start_s=at, end_s=at + 10, caption=f"clip {at} {words}") for at in (0, 10, 20))
    made = {
        **{"pair_id": f"{number:064x}", "source_id": f"film-{number}", "prompt_clips": clips},
        "aspect": ("aesthetics", "color", "dynamics_degree")[number % 3],
        **{"high_s": SECONDS, "low_s": SECONDS, "high_bytes": 3000, "low_bytes": 2500},
        **{"high_file": f"{number}-a.mp4", "low_file": f"{number}-b.mp4"},
        "must_see": [Stretch(video="low", start_s=at, end_s=at + 5, kind="degraded") for at in (5.0, 20.0)],
        **{"first_look": ((5.0, 15.0), (20.0, 25.0)), "gold": False},
    }
    return PairTask.model_validate({**made, **values})


def put_up(
    root: Path, pairs: list[PairTask], links: int, database: str | None = None, **settings: Any
) -> tuple[Serving, list[str]]:
    """Publish pairs with videos of random bytes; return the settings of a server, and tokens of links."""
    Store.create(root)
    folder = media_folder(root)
    folder.mkdir(parents=True)
    for one in pairs:
        for name, size in ((one.high_file, one.high_bytes), (one.low_file, one.low_bytes)):
            (folder / name).write_bytes(random.Random(name).randbytes(size))
    url = database_url(root, database)
    fixed = {"name": NAME, "release": "demo", "version": 1, "until_certain": False}
    with Desk.open(url, installation_key(root)) as desk:
        desk.organiser.publish(Campaign.model_validate({**fixed, **settings}), pairs)
        tokens = desk.organiser.invite(NAME, links)
    return serving_of(root, url), tokens


def serving_of(root: Path, database: str | None = None, campaigns: tuple[str, ...] = (NAME,)) -> Serving:
    """Return the settings of a server of a store's campaigns, without limits."""
    unlimited = {"worker_a_minute": 0, "address_a_minute": 0, "attempts_a_minute": 0}
    return Serving(str(root), database or database_url(root), str(media_folder(root)), campaigns, **unlimited)


def client(address: str, **more: Any) -> httpx.Client:
    """Return a client of a server on this machine, without the certificates that take long to load."""
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return httpx.Client(base_url=address, timeout=60, verify=bare, trust_env=False, **more)


@contextmanager
def running(serving: Serving, clock: Any) -> Iterator[str]:
    """Serve in a thread, on a free loopback port; yield the address."""
    opened = socket.socket()
    opened.bind(("127.0.0.1", 0))
    serving = serving.at(port=opened.getsockname()[1])
    config = uvicorn.Config(create_app(serving, clock), **{**options(serving), "factory": False})
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]})
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            time.sleep(0.005)
        yield f"http://127.0.0.1:{serving.port}"
    finally:
        server.should_exit = True
        thread.join()
        opened.close()


def island(page: str) -> dict[str, Any]:
    """Return the data of a task page."""
    (found,) = re.findall(r'<script type="application/json" id="island">(.*?)</script>', page, re.DOTALL)
    values: dict[str, Any] = json.loads(found)
    return values


def hidden(page: str) -> str:
    """Return the token of a page's forms."""
    match = re.search(r'name="csrf" value="([^"]+)"', page)
    assert match is not None, page
    return match[1]


def reason(reply: httpx.Response, status: int) -> str:
    """Return the reason in an answer, which also has a message for people."""
    assert reply.status_code == status, reply.text
    values = reply.json()
    assert set(values) == {"reason", "message", "next_page"}
    assert values["message"]
    return str(values["reason"])


def words(page: httpx.Response) -> str:
    """Return roughly the text that a reader sees."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page.text)).split())


@dataclass
class Browser:
    """A worker who uses HTTP, and does what the page's script does.

    Like the script, it retries while the server is unavailable, for at most `patience_s`.
    """

    address: str
    token: str = ""
    name: str = NAME
    patience_s: float = 0.0
    took: list[tuple[str, float]] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.http = client(self.address)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def ask(self, method: str, url: str, **more: Any) -> httpx.Response:
        """Send a request, retry while the server is unavailable, and record the duration."""
        ends = time.monotonic() + self.patience_s
        while True:
            began = time.perf_counter()
            try:
                reply = self.http.request(method, url, **more)
            except httpx.TransportError:
                if time.monotonic() > ends:
                    raise
                time.sleep(0.05)
                continue
            self.took.append((url.rpartition("/")[2], time.perf_counter() - began))
            return reply

    def open(self, path: str, **more: Any) -> httpx.Response:
        """Open a page of the campaign as a browser does."""
        return self.ask("GET", f"/c/{self.name}/{path}", headers=PAGE, follow_redirects=True, **more)

    def follow(self) -> httpx.Response:
        """Follow the link."""
        return self.open("enter", params={"token": self.token})

    def enter(self, language: str = "en") -> httpx.Response:
        """Follow the link and agree; return the next page."""
        page = self.follow()
        if not page.url.path.endswith("/consent"):
            return page
        return self.submit("consent", csrf=hidden(page.text), agree="yes", language=language)

    def submit(self, path: str, **form: str) -> httpx.Response:
        """Send a form as a browser does."""
        url = f"/c/{self.name}/{path}"
        return self.ask("POST", url, data=form, headers=PAGE, follow_redirects=True)

    def get(self, path: str, **more: Any) -> httpx.Response:
        """Ask for a page of the campaign as a script does."""
        return self.ask("GET", f"/c/{self.name}/{path}", **more)

    def video(self, place: str, method: str = "GET", **headers: str) -> httpx.Response:
        """Ask for a video."""
        return self.ask(method, self.data["urls"][place], headers=headers)

    def task(self) -> dict[str, Any]:
        """Open the task page, and return its view."""
        page = self.open("task")
        assert page.status_code == 200, page.text
        self.data = island(page.text)
        view: dict[str, Any] = self.data["view"]
        return view

    def fetch(self) -> None:
        """Fetch both videos completely."""
        for place in ("left", "right"):
            assert self.video(place, Range="bytes=0-").status_code == 206

    def send(self, name: str, headers: dict[str, str] | None = None, **body: Any) -> httpx.Response:
        """Send what the page's script sends."""
        carried = {"X-CSRF": self.data["csrf"]} if headers is None else headers
        return self.ask("POST", self.data["urls"][name], json=body, headers=carried)

    def send_accepted(self, name: str, **body: Any) -> dict[str, Any]:
        """Send something that must be accepted, and return the answer."""
        reply = self.send(name, **body)
        assert reply.status_code == 200, reply.text
        answer: dict[str, Any] = reply.json()
        return answer

    def look(self, seconds: float = SECONDS) -> dict[str, Any]:
        """Report that both videos were played from the start."""
        for place in ("left", "right"):
            view = self.send_accepted("play", place=place, intervals=[[0, seconds]], speed=1)
        return view

    def answer(
        self, wait: Any, rating: str = "A", comment: str = "", seconds: float = SECONDS
    ) -> dict[str, Any]:
        """Do the open task honestly; `wait(seconds)` lets viewing time pass."""
        view = self.task()
        self.fetch()
        wait(seconds)
        view = self.look(seconds)
        if view["state"] == "opened":
            view = self.send_accepted("prefer", place="left")
        wait(seconds)
        view = self.look(seconds)
        for stretch in view["must_see"]:
            view = self.send_accepted("confirm", number=stretch["number"])
        assert view["can_rate"], view
        return self.send_accepted("rate", rating=rating, comment=comment)
