"""Headers that every response has."""

from __future__ import annotations

import re

import httpx
import pytest

from slvmeval.web.annotation.security import HEADERS
from tests.slvmeval.web.annotation.conftest import Study
from tests.slvmeval.web.annotation.pieces import NAME, PAGE, Browser, pair


def answers(study: Study) -> dict[str, httpx.Response]:
    """Return a response of each kind."""
    browser = study.browser()
    responses = {
        "enter": study.stranger().open("enter"),
        "redirect": browser.http.get(f"/c/{NAME}/enter", params={"token": study.tokens[0]}),
        "consent": browser.open("consent"),
    }
    browser.enter()
    browser.task()
    urls = browser.data["urls"]
    responses |= {
        "task": browser.open("task"),
        "refused page": browser.open("done"),
        "refused JSON": browser.http.get(f"/c/{NAME}/done"),
        "forged": browser.http.post(
            urls["prefer"], json={"place": "left"}, headers={"Origin": "https://x.example"}
        ),
        "media": browser.http.get(urls["left"]),
        "range": browser.http.get(urls["left"], headers={"Range": "bytes=0-9"}),
        "no range": browser.http.get(urls["left"], headers={"Range": "bytes=9999999-"}),
        "play": browser.send("play", place="left", intervals=[[0, 1]], speed=1),
        "unfit": browser.send("play"),
        "method": browser.http.delete(urls["play"]),
        "asset": browser.http.get("/assets/base.css"),
        "health": browser.http.get("/health"),
        "nothing": browser.http.get("/nothing", headers=PAGE),
        "organiser": browser.http.get("/organiser/login", headers=PAGE),
        "host": browser.http.get("/nothing", headers={"Host": "x.example"}),
    }
    return responses


def test_no_answer_is_without_them(study: Study) -> None:
    study.begin(pairs=1)
    for name, reply in answers(study).items():
        for header in HEADERS:
            assert header in reply.headers, (name, header)
        policy = reply.headers["content-security-policy"]
        assert "unsafe" not in policy, name
        assert "frame-ancestors 'none'" in policy, name
        assert "default-src 'none'" in policy, name
        assert reply.headers["x-content-type-options"] == "nosniff"
        allowed = ("no-referrer", "same-origin") if name == "organiser" else ("no-referrer",)
        assert reply.headers["referrer-policy"] in allowed, name
        assert "server" not in reply.headers, name
        policy = reply.headers["cache-control"]
        assert (
            policy
            == {"media": "private, no-cache", "range": "private, no-cache", "asset": "no-cache"}.get(
                name, "private, no-cache" if name == "no range" else "no-store"
            )
            or name == "organiser"
        ), (name, policy)


def test_pages_need_nothing_that_the_policy_forbids(study: Study) -> None:
    study.begin(pairs=1)
    for name, reply in answers(study).items():
        if not reply.headers.get("content-type", "").startswith("text/html"):
            continue
        text = reply.text
        assert not re.search(r"\son\w+\s*=", re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)), name
        assert not re.search(r"\sstyle\s*=|<style", text), name
        for script in re.findall(r"<script[^>]*>", text):
            assert "src=" in script or 'type="application/json"' in script, (name, script)
        for address in re.findall(r'(?:src|href|action)="([^"]*)"', text):
            assert address.startswith(("/", "#", "data:,")), (name, address)


def test_cookies_are_the_sessions_only_and_kept_from_scripts(study: Study) -> None:
    study.begin(pairs=1)
    browser = study.browser()
    reply = browser.http.get(f"/c/{NAME}/enter", params={"token": study.tokens[0]})
    (cookie,) = reply.headers.get_list("set-cookie")
    parts = {
        part.strip().partition("=")[0].lower(): part.strip().partition("=")[2] for part in cookie.split(";")
    }
    assert parts["path"] == f"/c/{NAME}"
    assert parts["samesite"] == "lax"
    assert "httponly" in parts
    # gone when the browser is closed; for plain http on this machine it cannot be limited to https
    assert not {"expires", "max-age", "domain", "secure"} & set(parts)
    assert study.tokens[0] not in cookie


def test_by_https_cookies_are_kept_off_http(study: Study) -> None:
    study.begin(pairs=1, serving={"public_url": "https://pairs.example"})
    with Browser(study.address) as browser:
        host = {"Host": "pairs.example", **PAGE}
        reply = browser.http.get(f"/c/{NAME}/enter", params={"token": study.tokens[0]}, headers=host)
        assert "; Secure" in reply.headers["set-cookie"]
        assert "max-age=" in reply.headers["strict-transport-security"]


@pytest.mark.parametrize("name", ["base.css", "task.js"])
def test_assets_are_packed_and_asked_for_again_cheaply(study: Study, name: str) -> None:
    study.begin(pairs=1)
    with Browser(study.address) as browser:
        packed = browser.http.get(f"/assets/{name}")
        plain = browser.http.get(f"/assets/{name}", headers={"Accept-Encoding": "identity"})
        assert packed.headers["content-encoding"] == "gzip"
        assert "content-encoding" not in plain.headers
        assert packed.content == plain.content
        assert packed.headers["etag"] == plain.headers["etag"]
        again = browser.http.get(f"/assets/{name}", headers={"If-None-Match": packed.headers["etag"]})
        assert again.status_code == 304
        assert not again.content
        for other in ("..%2Frender.py", "%2e%2e/render.py", "nothing.js", ""):
            assert browser.http.get(f"/assets/{other}").status_code == 404, other


def test_long_prompts_travel_packed(study: Study) -> None:
    made = pair(0)
    caption = "A red ball rolls over the green lawn while a man in a blue coat looks on. " * 200
    clips = tuple(clip.model_copy(update={"caption": caption}) for clip in made.prompt_clips)
    study.begin(pairs=[made.model_copy(update={"prompt_clips": clips})])
    browser = study.worker()
    reply = browser.open("task")
    assert reply.headers["content-encoding"] == "gzip"
    assert len(reply.text) > 40_000
    assert reply.num_bytes_downloaded < 12_000
