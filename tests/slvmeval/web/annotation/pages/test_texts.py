"""The texts of the pages: complete in both languages, and replaceable."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from slvmeval.web.annotation import pages, problems
from slvmeval.web.annotation.pages.texts import ASPECT_KEYS, check_texts, texts
from storage_schemas.errors import UserInputError
from tasks.annotation.desk.refusals import RefusalReason
from tasks.aspects.registry import BUILT_IN

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
