"""Who is admitted, how often, and under which name: links, limits, hosts, proxies."""

from __future__ import annotations

import re
import threading

import pytest

from slvmeval.web.annotation import security
from slvmeval.web.annotation.security import Limiter
from tests.slvmeval.web.annotation.conftest import Study
from tests.slvmeval.web.annotation.pieces import Browser, reason

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
