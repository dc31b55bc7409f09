"""Pages as HTML, without a server: their content, texts in both languages, and that nothing breaks out."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
import pytest

from slvmeval.web.annotation import pages, problems
from slvmeval.web.annotation.pages.render import ASSETS, ASSETS_URL, PageName, render
from slvmeval.web.annotation.pages.texts import ASPECT_KEYS, check_texts, texts
from storage_schemas.errors import UserInputError
from tasks.annotation.campaign import Campaign
from tasks.annotation.desk.refusals import RefusalReason
from tasks.aspects.registry import BUILT_IN
from tests.slvmeval.cli.running import has, lacks
from tests.slvmeval.web.annotation.pages.films import EVIL
from tests.slvmeval.web.annotation.pieces import island

VIEW = {"id": "a1", "aspect": "color", "state": "opened", "preferred": None, "prompt": []}
VIEW |= {"look_share": 0.0, "least_seen": 0.9, "training": False}
REVEALED = {**VIEW, "state": "preferred", "preferred": "left", "intended": "right", "must_see": []}
EXPLAINED = {**REVEALED, "state": "rated", "training": True, "rating": "B"}
URLS = {"left": "/l", "right": "/r", "task": "/t"}


def campaign(**values: Any) -> Campaign:
    return Campaign.model_validate({"name": "study", "release": "demo", "version": 1, **values})


def page(name: PageName, language: str = "en", of: Campaign | None = None, **data: Any) -> str:
    return render(name, language, campaign=of or campaign(), csrf="x", **data)


def task(language: str = "en", of: Campaign | None = None, view: Any = VIEW, **data: Any) -> str:
    return page("task", language, of, view=view, urls=URLS, **data)


def every_page(language: str, of: Campaign, word: str = "x") -> dict[str, str]:
    view = {**REVEALED, "prompt": [{"start_s": 0, "end_s": 1, "caption": word, "translation": word}]}
    refused = {"reason": "expired", "message": word, "next_page": "/c/study/task"}
    made: dict[PageName, dict[str, Any]] = {
        **{"enter": {}, "consent": {}, "done": {"code": word, "answered": 3}, "refused": refused},
        "task": {"view": view, "urls": URLS},
        "question": {"question_id": "q", "aspect": "color", "tries": 1, "choices": [word, word], "pay": word},
    }
    return {name: render(name, language, campaign=of, csrf=word, **data) for name, data in made.items()}


class Elements(HTMLParser):
    """Collects what the pages' policy and a screen reader require."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, {name: value or "" for name, value in attrs}))


@pytest.mark.parametrize("language", ["en", "ja"])
def test_no_page_needs_anything_from_elsewhere(language: str) -> None:
    for name, html in every_page(language, campaign(organisation="Lab", contact="a@example.org")).items():
        assert f'<html lang="{language}">' in html
        assert not has(html, "http:", "https:", "//"), name
        seen = Elements(html).seen
        ids = [attributes["id"] for _, attributes in seen if "id" in attributes]
        assert len(ids) == len(set(ids)), name
        for tag, attributes in seen:
            assert not any(key == "style" or key.startswith("on") for key in attributes), (name, tag)
            assert tag != "style"
            if tag == "script" and attributes.get("type") != "application/json":
                assert attributes["src"].startswith(ASSETS_URL)
            for target in (attributes.get("src", ""), attributes.get("href", "")):
                assert not target.startswith(ASSETS_URL) or (ASSETS / target.rsplit("/", 1)[1]).is_file()


@pytest.mark.parametrize("language", ["en", "ja"])
def test_the_first_link_of_a_page_skips_to_its_content(language: str) -> None:
    for name, html in every_page(language, campaign()).items():
        seen = Elements(html).seen
        first = next(attributes for tag, attributes in seen if tag in ("a", "button", "input", "video"))
        assert first == {"class": "skip", "href": "#main"}, name
        assert [tag for tag, attributes in seen if attributes.get("id") == "main"] == ["main"], name
        assert f">{texts(language).words['page']['skip']}</a>" in html


def test_what_comes_from_outside_stays_text() -> None:
    evil = EVIL + "{{7777777*7}}"
    pages = every_page("en", campaign(organisation=evil, contact=evil, consent={"en": evil}), evil)
    for name, html in pages.items():
        assert not has(html, "<img", "<script>", "54444439"), name
        assert html.count("<script") == html.count("</script>"), name
    assert island(pages["task"])["view"]["prompt"][0]["caption"] == evil


def test_what_was_done_is_not_in_the_page_before_the_preference() -> None:
    changed = texts("en", "color").aspect["changed"]
    before, after = task(), task(view=REVEALED)
    assert not any(text in before for text in (changed, "step-see", 'rating"'))
    assert changed in after
    assert "We made the left video worse" in after


def test_training_is_announced_and_explained() -> None:
    clear = texts("en", "color").aspect["clear"]
    for view in (VIEW, REVEALED):
        assert "Practice: this task does not count" not in task(view=view)
        assert "Practice: this task does not count" in task(view={**view, "training": True})
    assert clear not in task(view={**VIEW, "training": True})
    urls = {**URLS, "trained": "/t/trained"}
    wrong = page("task", view=EXPLAINED, urls=urls)
    right = page("task", view={**EXPLAINED, "preferred": "right", "rating": "A"}, urls=urls)
    assert not lacks(
        wrong,
        "so it is the better one. You chose the left video.",
        "Your rating is B. We expect A here",
        clear,
    )
    assert not lacks(
        right, "Your first answer is right: the right video is the original.", "as we expect", clear
    )
    for html in (wrong, right):
        assert 'action="/t/trained"' in html
        assert 'name="rating"' not in html


def test_consent_says_what_comes_before_the_first_task() -> None:
    assert "Before your first task" not in page("consent")
    first = campaign(comprehension=True, training=1, gold_pairs=("g",))
    html = page("consent", of=first, answer_pay="0.60 EUR")
    assert not lacks(
        html, "with two tries", "You are paid 0.60 EUR for the question", "You practise with a task"
    )
    assert "You are paid" not in page("consent", of=first)


def test_consent_has_our_words_or_the_campaigns_own() -> None:
    ours = page("consent", of=campaign(pay_per_task=1.5, currency="EUR"))
    assert not lacks(ours, "1.50 EUR", "voluntary")
    brief = ours.partition('<ul class="brief">')[2].partition("</ul>")[0]
    lines = re.findall(r"<li>(\w+ ?\w*)[ :]", brief)
    assert lines == ["What", "Time", "Pay", "Stop at"], "four lines come first"
    assert ours.index("</ul>") < ours.index("Please read this page")
    assert "Pay: 1.50 EUR for each task" in brief
    hourly = campaign(pay_per_hour=12, currency="EUR")
    for language in ("en", "ja"):
        html = page("consent", language, hourly, pay="3.10 EUR – 4.20 EUR")
        assert not lacks(html, "3.10 EUR – 4.20 EUR", "12.00 EUR")
        assert "3.10 EUR" in task(language, hourly, pay="3.10 EUR")
    assert texts("en").words["consent"]["pay_title"] not in page("consent")
    own = campaign(consent={"en": "First part.\n\nSecond part."})
    html = page("consent", of=own)
    assert not lacks(html, "<p>First part.</p>", "<p>Second part.</p>")
    assert "voluntary" not in html
    # a language for which the campaign has no texts of its own
    assert texts("ja").words["consent"]["free"] in page("consent", "ja", own)


def test_languages_are_offered_where_there_are_some_and_somebody_to_keep_them_for() -> None:
    assert "日本語" in render("consent", "en", campaign=campaign(), csrf="x")
    assert "日本語" not in render("consent", "en", campaign=campaign(languages=["en"]), csrf="x")
    assert "日本語" not in render("enter", "en", campaign=campaign())


def test_a_refusal_needs_no_campaign() -> None:
    html = render("refused", "ja", campaign=None, reason="wrong_host", message="", next_page=None)
    assert texts("ja").refused("wrong_host")["title"] in html
    assert '<a class="button' not in html


def test_data_that_is_forgotten_is_not_an_empty_page() -> None:
    with pytest.raises(jinja2.UndefinedError):
        render("done", "en", campaign=campaign(), csrf="x", code="c")


def test_only_speeds_that_count_are_offered() -> None:
    html = render("task", "en", campaign=campaign(most_speed=1.5), csrf="x", view=VIEW, urls=URLS)
    assert re.findall(r'<option value="([\d.]+)"', html) == ["0.5", "1", "1.5"]


# -- texts: complete in both languages, and replaceable --------------------------------------------------

LANGUAGES = ("en", "ja")
#: Keys that a template cannot read with a dot, because a table has a method of that name.
METHODS = set(dir({}))


def flat(words: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    for key, value in words.items():
        # an aspect's texts are read with brackets
        assert key not in METHODS or path.startswith("aspects.")
        if isinstance(value, Mapping):
            yield from flat(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def test_both_languages_say_the_same_things() -> None:
    english, japanese = (dict(flat(texts(language).words)) for language in LANGUAGES)
    assert set(english) == set(japanese)
    for name, text in english.items():
        places = sorted(re.findall(r"{\w+}", text))
        assert sorted(re.findall(r"{\w+}", japanese[name])) == places, name
        # a text that is empty in one language is empty in both; one that was not translated would be the same
        assert bool(text) == bool(japanese[name]), name
        if text and not name.endswith("_key"):
            assert re.search("[ぁ-んァ-ヶ一-龠]", japanese[name]), name
            assert not re.search("[ぁ-んァ-ヶ一-龠]", text), name


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_aspect_and_every_reason_has_words(language: str) -> None:
    check_texts([language], BUILT_IN)
    reasons = {reason.value for reason in RefusalReason}
    reasons |= {value for name, value in vars(problems).items() if name.isupper() and isinstance(value, str)}
    known = texts(language).words["refused"]
    assert reasons <= set(known)
    assert texts(language).refused("unheard of") == known["other"]


def test_a_folder_adds_a_language(tmp_path: Path) -> None:
    with pytest.raises(UserInputError, match=r"no texts in 'xx'.*--texts"):
        texts("xx")
    ours = Path(str(files(pages).joinpath("texts", "en.toml"))).read_text()
    # all but the aspects, of which it needs those that it shows
    general, _, _ = ours.partition("[aspects.")
    (tmp_path / "xx.toml").write_text(general.replace('study = "Video study"', 'study = "Vidéos"'))
    assert texts("xx", None, tmp_path).words["page"]["study"] == "Vidéos"
    with pytest.raises(UserInputError, match=r"aspect color has no texts in xx.*\[aspects.color\] in"):
        check_texts(["xx"], ["color"], tmp_path)
    (tmp_path / "yy.toml").write_text('[page]\nname = "Y"\n')
    with pytest.raises(UserInputError, match=r"yy.toml lacks texts: \w+.* more"):
        texts("yy", None, tmp_path)


def test_own_words_go_over_ours(tmp_path: Path) -> None:
    (tmp_path / "en.toml").write_text(
        '[page]\nstudy = "Our study"\n[aspects.color]\nname = "Paint"\n[aspects.mine]\n'
        + "".join(f'{key} = "{key}"\n' for key in ASPECT_KEYS)
    )
    merged = texts("en", "color", tmp_path)
    assert merged.words["page"]["study"] == "Our study"
    assert merged.words["page"]["skip"]
    assert merged.aspect["name"] == "Paint"
    assert merged.aspect["question"] == texts("en", "color").aspect["question"]
    assert texts("en", "mine", tmp_path).aspect["clear"] == "clear"
    # only one language has the new aspect
    check_texts(["en"], ["mine"], tmp_path)
    with pytest.raises(UserInputError, match=r"mine.*ja.*\[aspects.mine\]"):
        check_texts(["ja"], ["mine"], tmp_path)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("page = 3", "page must be a table"),
        ('[page]\nstuddy = "x"', "there is no text page.studdy"),
        ("[page]\nstudy = 3", "page.study must be text"),
        ("[page", "is not valid TOML"),
        ('[task.search]\nx = "y"', "task.search must be text"),
        ('[script]\nposition = "no places"', r"script.position.*\{all\}.*\{now\}"),
    ],
)
def test_own_words_that_do_not_fit(tmp_path: Path, content: str, why: str) -> None:
    (tmp_path / "en.toml").write_text(content)
    with pytest.raises(UserInputError, match=why):
        texts("en", None, tmp_path)


#: Beginnings of words that tell what is done to the clips of each aspect (SLVMEval, 4.3 and appendix E.2).
OPERATIONS = {
    "aesthetics": "contrast invert negative swap dull flat pale dark bright light コントラスト 明る 暗 反転",
    "technical_quality": "resiz shr small enlarg lanczos detail coarse 縮小 拡大 細かい",
    "appearance_style": "cartoon oil paint pencil sketch watercolo detail 絵画 線画 漫画 水彩 スケッチ",
    "background_consistency": "replac landscape swap exchang 差し替え 風景",
    "object_integrity": "remov eras delet missing vanish 消 削除",
    "color": "recolo repaint swap chang 変え",
    "dynamics_degree": "freez frozen stand stop stays still photograph 止ま 静止",
    "comprehensiveness": "remov cut delet missing drop 削除 抜け",
    "spatial_relationship": "mirror flip swap exchang revers 反転 鏡",
    "temporal_flow": "mov insert shuffl swap exchang early late 移動 入れ替え",
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_before_the_first_answer_nobody_is_told_how_videos_are_degraded(language: str) -> None:
    for aspect, hints in OPERATIONS.items():
        words = texts(language).words["aspects"][aspect]
        told = " ".join(words[key] for key in ("name", "question", "instruction")).lower()
        found = [hint for hint in hints.split() if re.search(rf"\b{hint}" if hint.isascii() else hint, told)]
        assert found == [], aspect


#: What SLVMEval, table 4, tells.
CONTENT = {
    "aesthetics": ("composition", "harmony", "photographs", "tones"),
    "technical_quality": ("blur", "shake", "noise", "outlines"),
    "dynamics_degree": ("too static", "too erratic"),
    "spatial_relationship": ("left and right", "up and down", "front and back", "near and far"),
    "temporal_flow": ("order", "unrelated"),
}


def test_the_instructions_have_the_content_of_the_paper() -> None:
    for aspect, content in CONTENT.items():
        told = texts("en").words["aspects"][aspect]["instruction"]
        assert [word for word in content if word not in told] == [], aspect


def test_what_is_not_a_file_in_place_of_texts_is_named(tmp_path: Path) -> None:
    (tmp_path / "en.toml").mkdir()
    with pytest.raises(UserInputError, match=r"en\.toml cannot be read: it is a folder, not a file"):
        texts("en", None, tmp_path)
    (tmp_path / "en.toml").rmdir()
    os.mkfifo(tmp_path / "en.toml")
    with pytest.raises(UserInputError, match=r"en\.toml cannot be read: it is a named pipe, not a file"):
        texts("en", None, tmp_path)
