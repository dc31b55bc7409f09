"""Who is admitted, how often, and under which name: links, limits, hosts, proxies, Prolific's tokens."""

from __future__ import annotations

import json
import re
import threading
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

from slvmeval.web.annotation import security
from slvmeval.web.annotation.problems import Problem
from slvmeval.web.annotation.prolific import ProlificTokens
from slvmeval.web.annotation.security import Limiter
from tests.slvmeval.web.annotation.conftest import Study
from tests.slvmeval.web.annotation.pieces import NAME, Browser, reason

STYLE = "/assets/base.css"


@pytest.mark.parametrize("token", ["no-such-token", "../../etc", "a" * 43, "\x00", "' OR 1=1 --", "日本"])
def test_a_link_that_was_never_given_out(shared: Study, token: str) -> None:
    browser = shared.stranger()
    assert reason(browser.get("enter", params={"token": token}), 403) == "bad_link"
    for language, said in (("en", "not valid"), ("ja", "正しくありません")):
        browser.http.headers["Accept-Language"] = language
        page = browser.open("enter", params={"token": token})
        assert page.status_code == 403
        assert 'data-reason="bad_link"' in page.text
        (title,) = re.findall("<h1[^>]*>(.*?)</h1>", page.text)
        assert said in title
        assert token not in page.text


def test_identities_that_are_none(study: Study) -> None:
    study.begin(serving={"platforms": ("prolific-unsigned", "mturk")})
    for name in ("PROLIFIC_PID", "workerId", "token"):
        for value in (" ", "x" * 201, "\x00", "\n"):
            reply = study.stranger().get("enter", params={name: value})
            assert reply.status_code in (303, 400, 403, 422), reply.text
            assert reply.status_code == 303 or reply.json()["reason"] in ("bad_link", "bad_value")


@pytest.mark.usefixtures("timeless")
def test_who_is_too_fast_is_told_to_wait_and_others_are_not(study: Study) -> None:
    study.begin(serving={"worker_a_minute": 20, "attempts_a_minute": 5})
    busy, calm = study.worker(), study.worker()
    replies = [busy.get("task") for _ in range(30)]
    refused = [reply for reply in replies if reply.status_code == 429]
    assert len(refused) >= 10
    assert reason(refused[0], 429) == "too_many"
    assert 1 <= int(refused[0].headers["retry-after"]) <= 3
    assert calm.get("task").status_code == 200
    assert "<h1>" in busy.open("task").text
    # links cannot be tried out; workers who have entered stay
    late = study.browser()
    for number in range(5):
        assert reason(late.get("enter", params={"token": f"guess-{number}"}), 403) == "bad_link"
    reply = late.get("enter", params={"token": late.token})
    assert reason(reply, 429) == "too_many"
    assert 0 < int(reply.headers["retry-after"]) <= 12
    assert calm.get("task").status_code == 200


def styles(browser: Browser, count: int, address: str | None = None) -> list[int]:
    """Ask for a style sheet several times, as a proxy at an address."""
    headers = {} if address is None else {"X-Forwarded-For": address}
    return [browser.http.get(STYLE, headers=headers).status_code for _ in range(count)]


@pytest.mark.usefixtures("timeless")
def test_one_address_too_fast_is_told_to_wait(study: Study) -> None:
    study.begin(serving={"address_a_minute": 10})
    browser = study.stranger()
    assert styles(browser, 15) == [200] * 10 + [429] * 5
    assert browser.http.get("/health").status_code == 200
    assert styles(browser, 2, "1.2.3.4") == [429] * 2, "forwarded addresses are not trusted"


@pytest.mark.usefixtures("timeless")
def test_a_proxy_is_believed_if_that_was_reported(study: Study) -> None:
    study.begin(serving={"address_a_minute": 5, "trusted_proxies": "127.0.0.1"})
    browser = study.stranger()
    for address in ("1.2.3.4", "2001:db8::1"):
        assert styles(browser, 6, address) == [200] * 5 + [429]
    assert styles(browser, 1, "2001:db8::2") == [429], "one IPv6 network counts as one address"


def test_only_our_own_names_are_answered(study: Study) -> None:
    study.begin(serving={"public_url": "https://pairs.example"})
    browser = study.stranger()
    for host in ("evil.example", "pairs.example.evil.example", "evil.example:80", "a@127.0.0.1", ""):
        assert browser.get("enter", headers={"Host": host}).status_code in (400, 421), host
    for host in ("pairs.example", "PAIRS.example:443", "localhost", "[::1]:8017"):
        assert browser.get("enter", headers={"Host": host}).status_code == 200, host
    # by https, cookies are kept off http
    worker = study.browser()
    reply = worker.get("enter", params={"token": worker.token}, headers={"Host": "pairs.example"})
    assert "; Secure" in reply.headers["set-cookie"]
    assert "max-age=" in reply.headers["strict-transport-security"]


# -- the counting of requests ----------------------------------------------------------------------------


class Seconds:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_is_allowed_and_then_one_after_the_other() -> None:
    clock = Seconds()
    limiter = Limiter(clock)
    assert [limiter.wait_s("worker", "a", 60) for _ in range(60)] == [0.0] * 60
    assert limiter.wait_s("worker", "a", 60) == 1.0
    clock.now += 0.5
    assert limiter.wait_s("worker", "a", 60) == 0.5
    clock.now += 0.5
    assert limiter.wait_s("worker", "a", 60) == 0.0
    assert limiter.wait_s("worker", "a", 60) > 0
    clock.now += 3600
    assert [limiter.wait_s("worker", "a", 60) for _ in range(61)].count(0.0) == 60


def test_zero_is_not_a_limit_and_looking_counts_nothing() -> None:
    limiter = Limiter(Seconds())
    assert not any(limiter.wait_s("worker", "a", 0) for _ in range(1000))
    assert not any(limiter.full("attempts", "a", 2) for _ in range(10))
    assert limiter.wait_s("attempts", "a", 2) == limiter.wait_s("attempts", "a", 2) == 0.0
    assert limiter.full("attempts", "a", 2) == 30.0
    assert limiter.full("attempts", "a", 0) == 0.0


def test_memory_ends_somewhere_and_who_is_at_the_limit_stays_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "_MAX_COUNTERS", 500)
    clock = Seconds()
    limiter = Limiter(clock)
    for _ in range(2):
        limiter.wait_s("address", "attacker", 1)
    for number in range(security._MAX_COUNTERS + 10):
        clock.now += 1e-6
        limiter.wait_s("address", f"{number}", 1000)
        if number % 100 == 0:
            limiter.wait_s("address", "attacker", 1)
    assert len(limiter._left) <= security._MAX_COUNTERS
    assert limiter.full("address", "attacker", 1) > 0


def test_threads_together_get_no_more_than_one_alone() -> None:
    limiter = Limiter(Seconds())
    allowed: list[bool] = []

    def ask() -> None:
        allowed.extend(limiter.wait_s("worker", "a", 150) == 0.0 for _ in range(100))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(allowed) == 150


# -- Prolific's participants come with a token that Prolific signs; invented ones are refused ------------

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
