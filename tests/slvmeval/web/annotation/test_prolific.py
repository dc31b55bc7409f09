"""Prolific's participants come with a token that Prolific signs; invented ones are refused."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from slvmeval.web.annotation.problems import Problem
from slvmeval.web.annotation.prolific import ProlificTokens
from tests.slvmeval.web.annotation.conftest import Study
from tests.slvmeval.web.annotation.pieces import NAME, reason

HERE = "https://annotate.example.org"
IDS = {"PROLIFIC_PID": "5f3c9a", "STUDY_ID": "60aa", "SESSION_ID": "77bb"}


@cache
def rsa_key(number: int) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


class StandIn:
    """Signs as Prolific does, and gives its public keys away."""

    def __init__(self, name: str = "key-1", key: int = 1) -> None:
        self.name, self.asked, self.key = name, 0, rsa_key(key)

    def keys(self, _: str = "") -> dict[str, Any]:
        self.asked += 1
        public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
        return {"keys": [{**public, "kid": self.name, "alg": "RS256", "use": "sig"}]}

    def token(self, audience: str = HERE, seconds: float = 600, ids: Any = IDS, **header: Any) -> str:
        claims = {"aud": audience, "exp": time.time() + seconds, "prolific": ids}
        return jwt.encode(claims, self.key, "RS256", {"kid": self.name, **header})


@pytest.fixture(scope="module")
def prolific() -> StandIn:
    return StandIn()


@pytest.fixture
def tokens(prolific: StandIn) -> ProlificTokens:
    return ProlificTokens("https://keys", (HERE, "annotate.example.org"), prolific.keys)


@pytest.mark.parametrize("audience", [HERE, "annotate.example.org"])
def test_token_that_holds_gives_the_ids(prolific: StandIn, tokens: ProlificTokens, audience: str) -> None:
    assert tokens.ids(prolific.token(audience, ids={**IDS, "workspace_id": "w"})) == IDS


def forged(prolific: StandIn) -> dict[str, str]:
    head, body, signature = prolific.token().split(".")
    public = prolific.key.public_key()
    numbers = json.dumps(public.public_numbers().n).encode()
    return {
        "another key of the same name": StandIn(key=2).token(),
        "an unknown key": StandIn("key-2", key=2).token(),
        "another server": prolific.token("https://elsewhere.example"),
        "expired": prolific.token(seconds=-600),
        "no ids": prolific.token(ids={"PROLIFIC_PID": "5f3c9a"}),
        "ids that are not text": prolific.token(ids={**IDS, "SESSION_ID": 1}),
        "no signature": jwt.encode({"aud": HERE, "prolific": IDS}, "", "none", {"kid": "key-1"}),
        "signed with the public key": jwt.encode({"aud": HERE}, numbers, "HS256", {"kid": "key-1"}),
        "changed": ".".join([head, body[:-2] + ("AA" if body[-2:] != "AA" else "BB"), signature]),
        "no token": "x.y.z",
        "without an end": jwt.encode({"aud": HERE, "prolific": IDS}, prolific.key, "RS256", {"kid": "key-1"}),
    }


def test_token_that_does_not_hold_is_refused(prolific: StandIn, tokens: ProlificTokens) -> None:
    for what, token in forged(prolific).items():
        with pytest.raises(Problem) as refused:
            tokens.ids(token)
        assert (refused.value.status, refused.value.reason) == (403, "bad_link"), what


def test_keys_are_kept_for_a_day_and_asked_for_again_when_one_is_new(prolific: StandIn) -> None:
    now = [0.0]
    turning = StandIn("key-1")
    tokens = ProlificTokens("https://keys", (HERE,), turning.keys, lambda: now[0])
    for _ in range(3):
        tokens.ids(turning.token())
    assert turning.asked == 1
    turning.name = "key-2"
    with pytest.raises(Problem):
        tokens.ids(turning.token())
    assert turning.asked == 1, "invented names of keys do not make us ask again and again"
    now[0] = 61.0
    assert tokens.ids(turning.token()) == IDS
    now[0] += 24 * 3600 + 1
    assert tokens.ids(turning.token()) == IDS
    assert turning.asked == 3


@pytest.mark.parametrize("answer", [httpx.ConnectError("away"), ValueError("no set"), {"keys": []}])
def test_keys_that_are_away_are_reported_and_asked_for_again_soon(prolific: StandIn, answer: object) -> None:
    now, asked = [0.0], [0]

    def keys(url: str) -> dict[str, object]:
        asked[0] += 1
        if now[0] > 5:
            return prolific.keys(url)
        if isinstance(answer, Exception):
            raise answer
        return {"keys": []}

    tokens = ProlificTokens("https://keys", (HERE,), keys, lambda: now[0])
    for _ in range(3):
        with pytest.raises(Problem) as refused:
            tokens.ids(prolific.token())
        assert (refused.value.status, refused.value.reason) == (503, "keys_away")
    assert asked[0] == 1
    now[0] = 5.1
    assert tokens.ids(prolific.token()) == IDS


@contextmanager
def served(prolific: StandIn) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            data = json.dumps(prolific.keys()).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/jwks.json"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_participant_comes_in_with_a_token(study: Study, prolific: StandIn) -> None:
    with served(prolific) as keys:
        study.begin(serving={"platforms": ("prolific",), "prolific_keys": keys, "attempts_a_minute": 0})
        here = study.address
        came = study.stranger().get("enter", params={"prolific_token": prolific.token(here)})
        assert came.status_code == 303
        assert came.headers["location"].endswith("/consent")
        assert reason(study.stranger().get("enter", params=IDS), 403) == "bad_link"
        elsewhere = prolific.token("https://elsewhere.example")
        refused = study.stranger().get("enter", params={**IDS, "prolific_token": elsewhere})
        assert refused.status_code == 403
    with study.desk() as desk:
        (worker,) = desk.organiser.workers(NAME)
    assert (worker.platform, worker.session) == ("prolific", IDS["SESSION_ID"])


def test_page_on_platforms_names_what_each_signs() -> None:
    text = (Path(__file__).parents[4] / "docs" / "annotation-platforms.md").read_text(encoding="utf-8")
    said = dict(re.findall(r"^- \*\*([\w ,]+):\*\* (.*)", text, re.MULTILINE))
    assert "(JWT, RS256) signs participant, study and session" in said["Prolific, secured link"]
    assert "Anyone with the address can invent ids" in said["Prolific, plain link"]
    assert "Nothing is signed" in said["Mechanical Turk"]
    options = {"prolific", "prolific-unsigned", "mturk"}
    assert set(re.findall(r"`--platform ([\w-]+)`", " ".join(said.values()))) == options


@pytest.mark.usefixtures("timeless")
@pytest.mark.parametrize(
    ("platform", "ids"),
    [
        ("prolific-unsigned", lambda n: {"PROLIFIC_PID": f"p{n}"}),
        ("mturk", lambda n: {"workerId": f"W{n}", "assignmentId": "A", "hitId": "H"}),
    ],
)
def test_unsigned_workers_of_one_address_are_few(
    study: Study, platform: str, ids: Callable[[int], dict[str, str]]
) -> None:
    study.begin(serving={"platforms": (platform,), "new_a_minute": 3})
    replies = [study.stranger().get("enter", params=ids(n)) for n in range(5)]
    assert [reply.status_code for reply in replies] == [303, 303, 303, 429, 429]
    assert study.stranger().get("enter", params=ids(1)).status_code == 303
