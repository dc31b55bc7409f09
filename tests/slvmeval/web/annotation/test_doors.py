"""Who is admitted, how often, and under which name: links, limits, hosts, proxies."""

from __future__ import annotations

import pytest

from tests.slvmeval.web.annotation.conftest import Study
from tests.slvmeval.web.annotation.pieces import NAME, Browser, reason


@pytest.mark.parametrize("token", ["no-such-token", "../../etc", "a" * 43, "\x00", "' OR 1=1 --", "日本"])
def test_a_link_that_was_never_given_out(study: Study, token: str) -> None:
    study.begin()
    with Browser(study.address) as browser:
        reply = browser.http.get(f"/c/{NAME}/enter", params={"token": token})
        assert reason(reply, 403) == "bad_link"
        page = browser.open("enter", params={"token": token})
        assert page.status_code == 403
        assert "<h1>" in page.text
        assert token not in page.text


@pytest.mark.parametrize("name", ["PROLIFIC_PID", "workerId", "token"])
@pytest.mark.parametrize("value", [" ", "x" * 201, "\x00", "\n"])
def test_identities_that_are_none(study: Study, name: str, value: str) -> None:
    study.begin(serving={"platforms": ("prolific", "mturk")})
    with Browser(study.address) as browser:
        reply = browser.http.get(f"/c/{NAME}/enter", params={name: value})
        assert reply.status_code in (303, 400, 403, 422), reply.text
        assert reply.status_code == 303 or reply.json()["reason"] in ("bad_link", "bad_value")


def test_links_cannot_be_tried_out(study: Study) -> None:
    study.begin(serving={"attempts_a_minute": 5})
    with Browser(study.address) as browser:
        for number in range(5):
            reply = browser.http.get(f"/c/{NAME}/enter", params={"token": f"guess-{number}"})
            assert reason(reply, 403) == "bad_link"
        reply = browser.http.get(f"/c/{NAME}/enter", params={"token": study.tokens[0]})
        assert reason(reply, 429) == "too_many"
        assert 0 < int(reply.headers["retry-after"]) <= 12
    # workers who have entered stay: only entering is limited


def test_one_worker_too_fast_is_told_to_wait_and_others_are_not(study: Study) -> None:
    study.begin(pairs=3, serving={"worker_a_minute": 20})
    busy, calm = study.worker(0), study.worker(1)
    replies = [busy.http.get(f"/c/{NAME}/task") for _ in range(30)]
    refused = [reply for reply in replies if reply.status_code == 429]
    assert len(refused) >= 10
    assert reason(refused[0], 429) == "too_many"
    assert 1 <= int(refused[0].headers["retry-after"]) <= 3
    assert calm.http.get(f"/c/{NAME}/task").status_code == 200
    assert "<h1>" in busy.open("task").text


def test_one_address_too_fast_is_told_to_wait(study: Study) -> None:
    study.begin(serving={"address_a_minute": 10})
    with Browser(study.address) as browser:
        replies = [browser.http.get("/assets/base.css") for _ in range(15)]
        assert [reply.status_code for reply in replies].count(429) == 5
        assert browser.http.get("/health").status_code == 200
        # forwarded addresses are not trusted
        replies = [
            browser.http.get("/assets/base.css", headers={"X-Forwarded-For": "1.2.3.4"}) for _ in range(2)
        ]
        assert {reply.status_code for reply in replies} == {429}


def test_a_proxy_is_believed_if_that_was_said(study: Study) -> None:
    study.begin(serving={"address_a_minute": 5, "trusted_proxies": "127.0.0.1"})
    with Browser(study.address) as browser:
        for address in ("1.2.3.4", "2001:db8::1"):
            replies = [
                browser.http.get("/assets/base.css", headers={"X-Forwarded-For": address}) for _ in range(6)
            ]
            assert [reply.status_code for reply in replies] == [200] * 5 + [429]
        # one IPv6 network counts as one address
        reply = browser.http.get("/assets/base.css", headers={"X-Forwarded-For": "2001:db8::2"})
        assert reply.status_code == 429


def test_only_our_own_names_are_answered(study: Study) -> None:
    study.begin(serving={"public_url": "https://pairs.example"})
    with Browser(study.address) as browser:
        for host in ("evil.example", "pairs.example.evil.example", "evil.example:80", "a@127.0.0.1", ""):
            reply = browser.http.get(f"/c/{NAME}/enter", headers={"Host": host})
            assert reply.status_code in (400, 421), host
        for host in ("pairs.example", "PAIRS.example:443", "localhost", "[::1]:8017"):
            assert browser.http.get(f"/c/{NAME}/enter", headers={"Host": host}).status_code == 200, host
