"""Headers that every response has."""

from __future__ import annotations

import httpx
import pytest

from slvmeval.web.annotation.security import HEADERS
from tests.slvmeval.cli.running import lacks
from tests.slvmeval.web.annotation.conftest import Study
from tests.slvmeval.web.annotation.pieces import NAME, PAGE, pair


def answers(study: Study) -> dict[str, httpx.Response]:
    """Return a response of each kind."""
    browser = study.browser()
    http = browser.http
    responses = {
        "enter": study.stranger().open("enter"),
        "redirect": browser.get("enter", params={"token": browser.token}),
        "consent": browser.open("consent"),
    }
    browser.enter()
    browser.task()
    urls = browser.data["urls"]
    forged = {"Origin": "https://x.example"}
    return responses | {
        "task": browser.open("task"),
        "refused page": browser.open("done"),
        "refused JSON": browser.get("done"),
        "forged": http.post(urls["prefer"], json={"place": "left"}, headers=forged),
        "media": browser.video("left"),
        "range": browser.video("left", Range="bytes=0-9"),
        "no range": browser.video("left", Range="bytes=9999999-"),
        "play": browser.send("play", place="left", intervals=[[0, 1]], speed=1),
        "unfit": browser.send("play"),
        "method": http.delete(urls["play"]),
        "asset": http.get("/assets/base.css"),
        "health": http.get("/health"),
        "nothing": http.get("/nothing", headers=PAGE),
        "organiser": http.get("/organiser/login", headers=PAGE),
        "host": http.get("/nothing", headers={"Host": "x.example"}),
    }


KEPT = {"asset": "no-cache", **dict.fromkeys(("media", "range", "no range"), "private, no-cache")}


def test_headers_are_on_every_response(shared: Study) -> None:
    for name, reply in answers(shared).items():
        assert set(reply.headers) >= {header.lower() for header in HEADERS}, name
        policy = reply.headers["content-security-policy"]
        assert "unsafe" not in policy, name
        assert not lacks(policy, "frame-ancestors 'none'", "default-src 'none'"), name
        assert reply.headers["x-content-type-options"] == "nosniff"
        allowed = ("no-referrer", "same-origin") if name == "organiser" else ("no-referrer",)
        assert reply.headers["referrer-policy"] in allowed, name
        assert "server" not in reply.headers, name
        assert name == "organiser" or reply.headers["cache-control"] == KEPT.get(name, "no-store"), name


def test_cookies_are_the_sessions_only_and_kept_from_scripts(shared: Study) -> None:
    browser = shared.browser()
    reply = browser.get("enter", params={"token": browser.token})
    (cookie,) = reply.headers.get_list("set-cookie")
    pieces = (part.strip().partition("=") for part in cookie.split(";"))
    parts = {name.lower(): value for name, _, value in pieces}
    assert (parts["path"], parts["samesite"]) == (f"/c/{NAME}", "lax")
    assert "httponly" in parts
    # gone when the browser is closed; for plain http on this machine it cannot be limited to https
    assert not {"expires", "max-age", "domain", "secure"} & set(parts)
    assert browser.token not in cookie


@pytest.mark.parametrize("name", ["base.css", "task.js"])
def test_assets_are_packed_and_asked_for_again_cheaply(shared: Study, name: str) -> None:
    http = shared.stranger().http
    packed = http.get(f"/assets/{name}")
    plain = http.get(f"/assets/{name}", headers={"Accept-Encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert packed.content == plain.content
    assert packed.headers["etag"] == plain.headers["etag"]
    again = http.get(f"/assets/{name}", headers={"If-None-Match": packed.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    for other in ("..%2Frender.py", "%2e%2e/render.py", "nothing.js", ""):
        assert http.get(f"/assets/{other}").status_code == 404, other


def test_prompts_that_are_long_travel_packed(study: Study) -> None:
    caption = "A red ball rolls over the green lawn while a man in a blue coat looks on. " * 200
    clips = tuple(clip.model_copy(update={"caption": caption}) for clip in pair(0).prompt_clips)
    study.begin([pair(0, prompt_clips=clips)])
    reply = study.worker().open("task")
    assert reply.headers["content-encoding"] == "gzip"
    assert len(reply.text) > 40_000
    assert reply.num_bytes_downloaded < 12_000
