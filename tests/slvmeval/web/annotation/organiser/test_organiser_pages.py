"""The organiser's pages: who comes in, decisions and erasing, over real HTTP."""

from __future__ import annotations

import re
from html import unescape
from statistics import median

import httpx
import pytest
from sqlalchemy.exc import OperationalError

from slvmeval.web.annotation.organiser.login import ATTEMPTS_A_MINUTE, COOKIE, SESSION_HOURS
from slvmeval.web.annotation.organiser.pages import duration
from storage_schemas.store import Store
from storage_schemas.votes import Check, Standing, VotesStore, check_id
from tasks.annotation.desk import organiser as organisers
from tasks.annotation.desk.campaigns import Campaigns
from tasks.annotation.installation import media_folder
from tests.slvmeval.cli.running import has, lacks
from tests.slvmeval.web.annotation.conftest import Study
from tests.slvmeval.web.annotation.organising import CAREFUL, EVIL, HASTY, PAGES, Organiser, votes_of_a_week
from tests.slvmeval.web.annotation.pieces import NAME, client, hidden, pair, reason, words


def test_dashboard_tells_how_far_it_is(organiser: Organiser, busy: Study) -> None:
    organiser.log_in()
    page = organiser.page()
    assert "140 of 200 70.0 %" in words(page)
    with busy.desk() as opened:
        took = median(vote.total_s or 0.0 for _, vote in opened.votes.read(NAME))
    times = (duration(took), duration(busy.pairs[0].watch_s(0) + 60))
    assert "Time of a task {} measured, the median; expected {}".format(*times) in words(page)
    # bars can be read without seeing
    assert page.text.count('role="img"') == 2
    assert page.text.count("<summary>Show as a table</summary>") == 2
    assert re.search(r'aria-label="Votes by day: at most \d+ in a day, 140 in total"', page.text)
    bars = page.text.count('class="progress"')
    assert bars == page.text.count('aria-hidden="true"><rect class="all"') == 5
    browser = busy.worker()
    browser.send("prefer", place="left")
    text = words(organiser.page())
    assert not lacks(
        text, "28 of 40", "70.00 EUR 30.00 EUR still to come, 0.50 EUR per task", "1 task open now"
    )
    assert re.search(r"Pace \d+ per day probably \d+ to \d+ Estimated end \w{3} \d\d Nov", text)
    for aspect in ("Aesthetics", "Dynamics degree"):
        assert re.search(rf"{aspect} \d+\.\d % \d+ of 40 \d of 8", text), aspect
    assert not lacks(text, "A preference before both videos were played 1", "To review 1")
    assert organiser.http.get("/organiser/").headers["location"] == f"/organiser/c/{NAME}"
    # what is new is shown at once
    browser.answer(busy.clock.on)
    text = words(organiser.page())
    assert not lacks(text, "141 of 200", "answered, of 21 who entered")
    # an excluded worker gets no further task
    path = f"/workers/{busy.id_of(browser.token)}/decide"
    organiser.post(path, standing="excluded", note="asked to leave")
    assert reason(browser.get("task"), 403) == "excluded"
    assert "excluded" in words(organiser.page("/workers?show=excluded"))


def test_policy_lets_nothing_run_but_our_own_files(reader: Organiser) -> None:
    for reply in (reader.http.get("/organiser/login"), *map(reader.page, PAGES)):
        policy = reply.headers["content-security-policy"]
        assert not lacks(policy, "default-src 'none'", "script-src 'self'")
        assert "unsafe" not in policy
        assert reply.headers["cache-control"] == "no-store"
        assert reply.headers["x-frame-options"] == "DENY"
        assert "style=" not in reply.text
        assert not re.search(r"<script>|\son\w+=", without_texts(reply.text))
        assert not re.search(r'(src|href|action)="(https?:)?//', reply.text)


def without_texts(page: str) -> str:
    """Return a page's tags only."""
    return "".join(re.findall(r"<[^>]*>", page))


def test_texts_of_others_stay_texts(organiser: Organiser) -> None:
    organiser.log_in(name=EVIL)
    reply = organiser.post(f"/workers/{HASTY}/decide", standing="cleared", note=EVIL)
    assert reply.status_code == 303
    wrong = organiser.post(f"/workers/{HASTY}/decide", standing="", note=EVIL)
    pages = [organiser.page(path) for path in PAGES] + [wrong]
    for page in pages:
        tags = without_texts(page.text)
        assert "<script>document" not in page.text
        assert not has(tags, "<img", "onmouseover")
    assert words(pages[2]).count(EVIL) >= 2, "the comment and the note are there, as they were written"
    assert EVIL in unescape(wrong.text), "and what was typed is not lost"
    for evil in ("/workers/" + "%3Cscript%3Ealert(1)%3C%2Fscript%3E", "/%3Cimg%20src=x%3E"):
        reply = organiser.page(evil)
        assert reply.status_code == 404
        assert not has(reply.text, "<script>alert", "<img")


def test_workers_are_listed_those_to_review_first(reader: Organiser) -> None:
    page = reader.page("/workers")
    matches = re.findall(rf'href="/organiser/c/{NAME}/workers/([0-9a-z]{{32}})"', page.text)
    assert matches[0] == HASTY
    assert len(matches) == 20
    assert "badbadbadb to review fast disagrees 14 " in words(page)
    for show, number in (("listed", 1), ("flagged", 1), ("excluded", 0), ("nonsense", 20)):
        page = reader.page(f"/workers?show={show}")
        assert len(re.findall(r"/workers/[0-9a-z]{32}", page.text)) == number, show
    assert "20 to 20 of 20" in words(reader.page("/workers?first=99999"))
    assert reader.page("/workers?first=-5").status_code == 200
    assert reader.page("/workers?first=x").status_code == 422


def test_review_page_has_numbers_thresholds_and_the_others(reader: Organiser) -> None:
    page = reader.page(f"/workers/{HASTY}")
    text = words(page)
    assert re.search(r"Fast flagged \d+ of 14 \(\d+\.\d %\) tasks whose time", text)
    assert "Threshold: 3 or more, and 50% of the timed tasks or more." in text
    assert re.search(r"Disagrees flagged \d of \d+ ", text)
    assert not lacks(text, "from A to C are 2", "Threshold: 20% or less, of at least 10 such tasks.")
    assert re.search(r"worse others: \d of 4 better C 2 steps apart AAA[AB] 0:18 0.30 × the videos", text)
    told = text.partition("The 3 tasks that show best why")[2].partition("Decision")[0]
    assert re.search(r"fast 0:18 for 1:00 of video, among the fastest \d+ %", told)
    assert re.search(r"disagrees rated C where others rated AAA[AB]", told)
    others = words(reader.page(f"/workers/{CAREFUL}"))
    assert "show best why" not in others
    linked = re.findall(r'href="#(vote-[^"]+)"', page.text)
    assert len(linked) == 3
    assert all(page.text.count(f'id="{one}"') == 1 for one in linked)
    assert "flagged" not in others.replace("not flagged", "")
    ordered = words(reader.page(f"/workers/{CAREFUL}?order=fastest")).partition(" time played when ")[2]
    fastest = [int(n) for n in re.findall(r"fastest (\d+) %", ordered.partition("Time is the duration")[0])]
    assert fastest == sorted(fastest)
    assert len(fastest) > 3
    assert reader.page(f"/workers/{'0' * 32}").status_code == 404


def test_decision_comes_after_the_evidence_with_its_videos(quiet: Study, reader: Organiser) -> None:
    page = reader.page(f"/workers/{HASTY}").text
    evidence, decision = page.index("show best why"), page.index('id="decide"')
    videos = re.findall(r'<video src="([^"#]+)#t=([\d.]+)"', page[evidence:decision])
    assert len(videos) == 6 == page.count("<video")
    pairs = {pair.pair_id: pair for pair in quiet.pairs}
    for number, (url, begins) in enumerate(videos):
        _, pair_id, side = url.rsplit("/", 2)
        pair = pairs[pair_id]
        assert (side, float(begins)) == (("high", "low")[number % 2], pair.must_see[0].start_s)
        sent = reader.http.get(url, headers={"Range": "bytes=0-9"})
        stored = (media_folder(quiet.root) / pair.file_of("high" if side == "high" else "low")).read_bytes()
        assert (sent.status_code, sent.content) == (206, stored[:10])
    assert "Changed: 0:05 to 0:10 of the changed video" in words(reader.page(f"/workers/{HASTY}"))
    # those of every other vote are one link away
    linked = set(re.findall(r'href="/organiser/c/\w+(/pairs/\w+)"', page))
    assert len(linked) == 14
    assert reader.page(linked.pop()).text.count("<video") == 2
    (gone, _), *_ = videos
    for wrong in ("/pairs/none", "/pairs/none/high"):
        assert reader.page(wrong).status_code == 404
    assert reader.http.get(gone.rpartition("/")[0] + "/both").status_code == 422


def test_check_tasks_are_called_what_they_are(study: Study) -> None:
    equal = pair(2, pair_id=check_id(f"{2:064x}", Check.EQUAL), gold=True)
    again = pair(1, pair_id=check_id(f"{1:064x}", Check.AGAIN), gold=True)
    study.begin([pair(1), again, equal, pair(3, gold=True)])
    one = votes_of_a_week(study, study.pairs, share=1.0)[0]
    given = {"worker": CAREFUL, "comment": "", "rating": "A"}
    votes = [
        one.model_copy(
            update={**given, "vote_id": f"{n}", "pair_id": task.pair_id, "gold": task.gold, "preferred": side}
        )
        for n, (task, side) in enumerate(zip(study.pairs, ("high", "low", "high", "low"), strict=True))
    ]
    with study.desk() as desk, Organiser(study) as somebody:
        desk.votes.add(NAME, votes)
        somebody.log_in()
        text = words(somebody.page(f"/workers/{CAREFUL}")).partition("Votes compared")[2]
    assert re.search(r"equal videos 0{12} (left|right): both are equal A of equal videos", text)
    assert re.search(r"repeated, sides swapped 0{12} a different video than before A", text)
    assert re.search(r"known answer 0{12} worse", text)
    assert text.count("worse") == 1
    assert "gold" not in text


def test_review_page_calls_nothing_fast_where_no_time_can_be_compared(study: Study) -> None:
    study.begin(pairs=20, rule="paper")
    votes = votes_of_a_week(study, study.pairs, share=1.0)
    few = [vote for vote in votes if vote.pair_id in {pair.pair_id for pair in study.pairs[:3]}]
    with study.desk() as desk, Organiser(study) as somebody:
        somebody.log_in()
        desk.votes.add(NAME, few)
        page = somebody.page(f"/workers/{HASTY}")
        assert "0 of 0" not in words(page)
        assert "Fast not flagged Nothing to count yet: tasks whose time" in words(page)
        assert 'class="warn">fastest' not in page.text
        desk.votes.add(NAME, [vote for vote in votes if vote not in few])
        # the indicators are computed every few seconds, and count the votes that are shown beside them
        after = somebody.page(f"/workers/{HASTY}")
    uncounted = "Fast not flagged Nothing to count yet" in words(after)
    assert not (uncounted and 'class="warn">fastest' in after.text)


def test_forms_may_not_be_endless(reader: Organiser) -> None:
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    for content in (b"x" * 300_000, (b"x" * 10_000 for _ in range(30))):
        assert reader.http.post("/organiser/login", content=content, headers=kind).status_code == 413


def test_decision_has_a_note_and_stays_on_record(busy: Study, organiser: Organiser) -> None:
    organiser.log_in()
    for fields in (
        {"standing": "excluded", "note": " \n "},
        {"standing": "excluded"},
        {"note": "why"},
        {"standing": "hanged", "note": "why"},
        {"standing": "excluded", "note": "x" * (organisers.MAX_NOTE_LENGTH + 1)},
    ):
        assert organiser.post(f"/workers/{HASTY}/decide", **fields).status_code == 422, fields
    with busy.desk() as opened:
        assert opened.decisions.read(NAME) == []
    reply = organiser.post(f"/workers/{HASTY}/decide", standing="excluded", note="too fast, and wrong")
    text = words(organiser.http.get(reply.headers["location"]))
    assert "Decision recorded: excluded. This worker gets no more tasks. Existing votes still count." in text
    organiser.post(f"/workers/{HASTY}/decide", standing="cleared", note="the network was slow")
    with busy.desk() as opened:
        made = [(row.worker, row.decision, row.note, row.by) for row in opened.decisions.read(NAME)]
    assert made == [
        (HASTY, Standing.EXCLUDED, "too fast, and wrong", "Aya"),
        (HASTY, Standing.CLEARED, "the network was slow", "Aya"),
    ]
    record = words(organiser.page("/record"))
    assert record.index("the network was slow") < record.index("too fast, and wrong")
    assert "To review 0" in words(organiser.page())
    assert organiser.post(f"/workers/{'0' * 32}/decide", standing="excluded", note="x").status_code == 404


def test_decision_made_meanwhile_is_shown(busy: Study, organiser: Organiser) -> None:
    organiser.log_in()
    path = f"/workers/{HASTY}"
    seen = re.search(r'name="after" value="([^"]*)"', organiser.page(path).text)
    assert seen is not None
    assert seen[1] == ""
    organiser.post(f"{path}/decide", standing="cleared", note="the network was slow", after="")
    second = {"standing": "excluded", "note": "a robot", "after": seen[1]}
    reply = organiser.post(f"{path}/decide", **second)
    assert reply.status_code == 409
    said = "Nothing was recorded: Aya has decided meanwhile: cleared, 'the network was slow'."
    assert said in unescape(words(reply))
    assert "a robot" in reply.text, "what was typed is not lost"
    again = re.search(r'name="after" value="([^"]+)"', reply.text)
    assert again is not None
    organiser.post(f"{path}/decide", **{**second, "after": again[1]})
    with busy.desk() as opened:
        assert [row.decision for row in opened.decisions.read(NAME)] == [Standing.CLEARED, Standing.EXCLUDED]


def test_decision_that_drops_votes_says_so_and_counts_them_no_more(study: Study) -> None:
    study.begin(20, drop_excluded=True)
    with study.desk() as desk:
        desk.votes.add(NAME, votes_of_a_week(study, study.pairs))
    with Organiser(study) as somebody:
        somebody.log_in()
        assert "70 of 100" in words(somebody.page())
        reply = somebody.post(f"/workers/{HASTY}/decide", standing="excluded", note="a robot")
        assert "votes no longer count" in words(somebody.http.get(reply.headers["location"]))
        assert "63 of 100" in words(somebody.page())


def test_erase_needs_the_name_typed_and_takes_out_everything(busy: Study, organiser: Organiser) -> None:
    files = VotesStore(Store.open(busy.root))
    with busy.desk() as opened:
        files.add([vote for _, vote in opened.votes.read(NAME)])
    organiser.log_in()
    organiser.post(f"/workers/{HASTY}/decide", standing="excluded", note="NOTE-OF-HASTY")
    assert "14 votes with their comments" in words(organiser.page(f"/workers/{HASTY}/erase"))
    for typed in ("", "erase", HASTY[:9], CAREFUL[:10]):
        reply = organiser.post(f"/workers/{HASTY}/erase", typed=typed)
        assert reply.status_code == 422
        assert "nothing was erased" in words(reply)
    reply = organiser.post(f"/workers/{HASTY}/erase", typed=HASTY[:10])
    assert reply.status_code == 200
    assert not lacks(
        words(reply), "14 votes, 0 tasks, 1 events, 1 decisions", "from the collected files 14 votes"
    )
    assert "0001-badbadba" in reply.text
    assert organiser.page(f"/workers/{HASTY}").status_code == 404
    for path in ("", "/workers", "/record"):
        page = organiser.page(path)
        assert not has(page.text, HASTY, "NOTE-OF-HASTY")
    assert "126 of 200" in words(organiser.page()), "their pairs are given to other workers"
    assert not any(vote.worker == HASTY for vote in files.votes([NAME]))
    # no file of the store contains them, not even unused pages of the database
    for path in (busy.root / "annotation").rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        assert not any(text.encode() in data for text in (HASTY, "NOTE-OF-HASTY")), path


def test_campaigns_that_are_not_served_are_not_shown(study: Study) -> None:
    study.begin(pairs=3, serving={"campaigns": (NAME, "autumn", "gone")})
    with study.desk() as desk:
        for name in ("autumn", "hidden"):
            desk.organiser.publish(desk.campaigns.get(NAME).model_copy(update={"name": name}), study.pairs)
    with Organiser(study) as somebody:
        somebody.log_in()
        page = somebody.http.get("/organiser/")
        assert re.findall(r'href="/organiser/c/([^"]+)"', page.text) == ["autumn", NAME]
        assert "All campaigns" in words(somebody.page())
        for name, status in (("autumn", 200), ("hidden", 404), ("gone", 404)):
            for path in ("", "/workers", "/record", f"/workers/{HASTY}"):
                expected = 404 if HASTY in path else status
                assert somebody.http.get(f"/organiser/c/{name}{path}").status_code == expected, (name, path)


def test_database_that_is_away_is_called_away(reader: Organiser, monkeypatch: pytest.MonkeyPatch) -> None:
    token = hidden(reader.page("/record").text)

    def away(*_: object, **__: object) -> None:
        raise OperationalError("SELECT secret", {}, Exception("gone"))

    monkeypatch.setattr(Campaigns, "all", away)
    for reply in (
        reader.page(),
        reader.http.get("/organiser/"),
        reader.post(f"/workers/{HASTY}/decide", csrf=token, standing="excluded", note="x"),
    ):
        assert reply.status_code == 503
        assert "nothing was changed" in words(reply)
        assert "SELECT" not in reply.text
    monkeypatch.undo()
    assert reader.page().status_code == 200


def test_unforeseen_error_is_answered_too(reader: Organiser, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError("in the middle")

    monkeypatch.setattr(organisers.Organiser, "erased", fails)
    reply = reader.page("/record")
    assert reply.status_code == 500
    assert "see its log" in words(reply)
    assert "ZeroDivisionError" not in reply.text
    assert "default-src 'none'" in reply.headers["content-security-policy"]


# -- access ----------------------------------------------------------------------------------------------


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
def test_wrong_secrets_make_the_right_one_wait(monkeypatch: pytest.MonkeyPatch, study: Study) -> None:
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
