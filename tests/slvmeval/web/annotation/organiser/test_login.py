"""Access to the organiser's pages, over real HTTP."""

from __future__ import annotations

import re

import httpx
import pytest

from slvmeval.web.annotation.organiser.login import ATTEMPTS_A_MINUTE, COOKIE, SESSION_HOURS
from tests.slvmeval.web.annotation.conftest import Study
from tests.slvmeval.web.annotation.organising import HASTY, PAGES, Organiser
from tests.slvmeval.web.annotation.pieces import NAME, client, hidden


def test_without_the_secret_there_is_only_the_login(organiser: Organiser) -> None:
    for path in ("/organiser/", *(f"/organiser/c/{NAME}{page}" for page in PAGES), "/organiser/nothing"):
        reply = organiser.http.get(path)
        assert reply.status_code == 303, path
        assert reply.headers["location"].startswith("/organiser/login?next_page="), path
        assert HASTY not in reply.text
    for path in (f"/workers/{HASTY}/decide", f"/workers/{HASTY}/erase"):
        reply = organiser.post(path, csrf="", standing="excluded", note="x", typed=HASTY[:10])
        assert (reply.status_code, reply.headers["location"][:16]) == (303, "/organiser/login")
    assert organiser.http.get("/organiser").headers["location"] == "/organiser/"
    assert organiser.http.get("/organiser/assets/organiser.css").status_code == 200
    for path in ("/organiser/assets/../app.py", "/organiser/assets/%2e%2e/app.py"):
        assert organiser.http.get(path).status_code in (303, 404)


def as_if(study: Study, path: str, name: str, value: str) -> httpx.Response:
    """Ask for a page with one cookie only."""
    with client(study.address) as http:
        return http.get(path, headers={"Cookie": f"{name}={value}"})


def test_a_workers_session_opens_no_organisers_page(busy: Study, organiser: Organiser) -> None:
    browser = busy.worker()
    (cookie,) = [one for one in browser.http.cookies.jar if one.name == "slvmeval_worker"]
    assert cookie.path == f"/c/{NAME}", "it is not even sent there"
    for name in ("slvmeval_worker", COOKIE):
        for page in PAGES:
            reply = as_if(busy, f"/organiser/c/{NAME}{page}", name, str(cookie.value))
            assert reply.status_code == 303
            assert "/login" in reply.headers["location"]
    # and vice versa
    organiser.log_in()
    own = organiser.http.cookies[COOKIE]
    assert as_if(busy, f"/c/{NAME}/task", "slvmeval_worker", own).status_code == 401


def test_the_session_is_the_organisers_only(busy: Study, organiser: Organiser) -> None:
    reply = organiser.log_in(next_page=f"/organiser/c/{NAME}/workers?show=listed")
    assert (reply.status_code, reply.headers["location"]) == (303, f"/organiser/c/{NAME}/workers?show=listed")
    cookie = reply.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=lax", "Path=/organiser"} <= set(cookie.split("; "))
    assert not re.search("Expires|Max-Age", cookie), "it goes with the browser"
    assert organiser.page().status_code == 200
    value = organiser.http.cookies[COOKIE]
    for changed in (value[:-1], value + "x", "x" + value, "", "{}"):
        assert as_if(busy, f"/organiser/c/{NAME}", COOKIE, changed).status_code == 303
    busy.clock.on(SESSION_HOURS * 3600 + 1)
    assert organiser.page().status_code == 303, "after a working day it has ended"
    busy.clock.on(-30 * 24 * 3600)
    assert organiser.page().status_code == 303, "also where the clock jumps back"
    # who logs out is out with every copy of the cookie
    organiser.log_in()
    copied = organiser.http.cookies[COOKIE]
    assert organiser.http.post("/organiser/logout", data={"csrf": "wrong"}).status_code == 403
    token = hidden(organiser.page().text)
    assert organiser.http.post("/organiser/logout", data={"csrf": token}).status_code == 303
    assert COOKIE not in organiser.http.cookies
    assert as_if(busy, f"/organiser/c/{NAME}", COOKIE, copied).status_code == 303


@pytest.mark.usefixtures("timeless")
def test_wrong_secrets_are_counted_and_the_right_one_has_to_wait_too(
    monkeypatch: pytest.MonkeyPatch, study: Study
) -> None:
    monkeypatch.setenv("SLVMEVAL_ORGANISER_SECRET", "a secret of our own")
    study.begin()
    with Organiser(study) as somebody:
        assert somebody.log_in(secret="a secret of our own").status_code == 303
        somebody.http.cookies.clear()
        for wrong in ("a secret of our ow", *["not the secret, é"] * (ATTEMPTS_A_MINUTE - 1)):
            reply = somebody.log_in(secret=wrong)
            assert reply.status_code == 403
            assert "This is not the secret." in reply.text
        reply = somebody.log_in(secret="a secret of our own")
        assert reply.status_code == 429
        assert 0 < int(reply.headers["retry-after"]) <= 61
        assert COOKIE not in somebody.http.cookies


def test_a_login_needs_a_name_and_goes_nowhere_else(reader: Organiser) -> None:
    assert reader.log_in(name=" \u200b ").status_code == 422
    assert reader.http.post("/organiser/login").status_code == 403
    for elsewhere in (
        "https://elsewhere.example/",
        "//elsewhere.example",
        "/organiser/\\\\elsewhere.example",
        "/organiser/../c/study",
        "/organiser/%0d%0aSet-Cookie:x=1",
        "/c/study",
        "javascript:alert(1)",
    ):
        assert reader.log_in(next_page=elsewhere).headers["location"] == "/organiser/", elsewhere


def test_a_form_needs_the_sessions_token(quiet: Study, reader: Organiser) -> None:
    with Organiser(quiet, "Ben") as other:
        other.log_in()
        foreign = hidden(other.page().text)
    for token in ("", "x", foreign):
        for path in (f"/workers/{HASTY}/decide", f"/workers/{HASTY}/erase"):
            reply = reader.post(path, csrf=token, standing="excluded", note="x", typed=HASTY[:10])
            assert reply.status_code == 403
    reply = reader.http.post(
        f"/organiser/c/{NAME}/workers/{HASTY}/decide",
        data={"csrf": hidden(reader.page().text), "standing": "excluded", "note": "x"},
        headers={"Origin": "https://elsewhere.example"},
    )
    assert reply.status_code == 403
    with quiet.desk() as opened:
        assert opened.decisions.read(NAME) == []
        assert opened.organiser.erased(NAME) == []
