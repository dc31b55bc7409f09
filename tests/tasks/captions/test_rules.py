from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from storage_schemas.analysis import CaptionAnalysis
from storage_schemas.errors import PrerequisiteError
from tasks.captions import rules
from tasks.captions.rules import MAX_CHARACTERS, RulesAnalyser, is_english

EMPTY = CaptionAnalysis()


def analyse(caption: str) -> CaptionAnalysis:
    return RulesAnalyser().analyse([caption])[0]


def plain(analysis: CaptionAnalysis) -> dict[str, set[str]]:
    """Return an analysis as sets of short texts."""
    return {
        "subject": set(analysis.subject),
        "background": set(analysis.background),
        "scene": set(analysis.scene),
        "motion": {f"{one.agent}: {one.action}" for one in analysis.dynamic_degree},
        "human": {f"{one.agent}: {one.action}" for one in analysis.human_action},
        "color": {f"{one.color} {one.object}" for one in analysis.color},
        "position": {f"{one.object} {one.location}" for one in analysis.spatial_relationship},
    }


# Each caption with the fields that it must have, exactly; fields not named are not looked at.
CAPTIONS: list[tuple[str, dict[str, set[str]]]] = [
    # colours
    ("A man holds a red cup.", {"color": {"red cup"}}),
    ("A large grey rabbit with dark red shoes sits on a bench.", {"color": {"grey rabbit", "red shoes"}}),
    ("A light-blue ball lies on the floor.", {"color": {"blue ball"}}),
    ("A black and white cat sleeps on a sofa.", {"color": {"black cat", "white cat"}}),
    ("The car is green.", {"color": {"green car"}}),
    ("The chef is chopping green onions in a white bowl.", {"color": {"white bowl"}}),
    ("A glass of orange juice stands on a table.", {"color": set()}),
    ("There is no red car in the street.", {"color": set()}),
    ("A boy eats an orange.", {"color": set()}),
    ("The towers stand under a dark blue night sky.", {"color": {"blue night sky"}}),
    ("A man wears a navy blue sweater.", {"color": {"blue sweater"}}),
    ("A bent brown sapling forms an arch.", {"color": {"brown sapling"}}),
    # motion, of things and of people
    ("A dog runs across a field.", {"motion": {"dog: runs across a field"}, "human": set()}),
    (
        "A woman walks along the beach.",
        {"motion": {"woman: walks along the beach"}, "human": {"woman: walks along the beach"}},
    ),
    ("A chef is sitting at a table.", {"motion": set(), "human": {"person: sitting at a table"}}),
    ("A yellow taxi passes slowly.", {"motion": {"taxi: passes"}}),
    (
        "Leaves fall from the tree and a flag waves.",
        {"motion": {"leaves: fall from the tree", "flag: waves"}},
    ),
    ("A running dog is seen.", {"motion": {"dog: running"}}),
    ("The camera pans to the left and zooms in.", {"motion": set(), "position": set()}),
    ("The camera moves slowly while a boat drifts by.", {"motion": {"boat: drifts"}}),
    ("Snow-covered mountains rise behind the village.", {"motion": set()}),
    ("The cat is not moving.", {"motion": set()}),
    ("The girl wants to run.", {"motion": set()}),
    ("The boat might sink.", {"motion": set()}),
    ("The phone is turned on.", {"motion": set()}),
    ("The boulder is bound with green ropes.", {"human": set()}),
    (
        "A man opens a door, then he leaves the room.",
        {"human": {"man: opens a door", "man: leaves the room"}},
    ),
    # positions
    ("A tree stands on the left.", {"position": {"tree on the left"}}),
    ("On the right side of the frame, a dog sleeps.", {"position": {"dog on the right side of the frame"}}),
    ("A lamp hangs in the upper left corner.", {"position": {"lamp in the upper left corner"}}),
    ("A logo appears in the bottom-right corner.", {"position": {"logo in the bottom-right corner"}}),
    ("A boulder lies to the left of the burrow.", {"position": {"boulder to the left of the burrow"}}),
    (
        "The brown squirrel stands on the left, and the grey chinchilla sits on the right.",
        {"position": {"squirrel on the left", "chinchilla on the right"}},
    ),
    ("A dog stands in front of the house.", {"position": {"dog in front of the house"}}),
    ("She left the room.", {"position": set()}),
    ("He holds a phone in his right hand.", {"position": set()}),
    ("The rabbit walks away to the right.", {"position": set()}),
    ("A bird flies in from the left.", {"position": set()}),
    ("A cup stands next to a plate, between two forks, near the window.", {"position": set()}),
    ("To his right, a large monitor displays a graph.", {"position": {"monitor to his right"}}),
    (
        "The left half shows a boy, while the right half shows a girl.",
        {"position": {"boy left half", "girl right half"}},
    ),
    # background, scenes, subjects
    ("The light in the background changes.", {"background": set()}),
    ("A steep cliff rises.", {"subject": {"cliff"}, "motion": set()}),
    ("In the background there are green trees and a lake.", {"background": {"green trees", "lake"}}),
    ("A pink sky fills the background.", {"background": {"pink sky"}}),
    ("A man stands in front of a fence with hills in the background.", {"background": {"hills"}}),
    ("A boy stands by a lake, with hills and trees in the background.", {"background": {"hills", "trees"}}),
    ("A woman speaks against a white wall.", {"background": {"white wall"}}),
    ("A ladder leans against a white wall.", {"background": set()}),
    ("Behind her there is a bookshelf.", {"background": {"bookshelf"}}),
    ("The background is blurred.", {"background": {"background"}}),
    ("A man talks to a friend.", {"background": set()}),
    ("A boy plays in a sunny park.", {"scene": {"sunny park"}, "subject": {"boy"}}),
    ("Two men in black suits ride a motorcycle.", {"subject": {"men", "motorcycle"}}),
    ("The mood of the scene is calm.", {"subject": set(), "scene": set()}),
]


@pytest.mark.parametrize(("caption", "expected"), CAPTIONS, ids=[caption[:45] for caption, _ in CAPTIONS])
def test_what_a_caption_says(caption: str, expected: dict[str, set[str]]) -> None:
    outcome = plain(analyse(caption))
    assert {name: outcome[name] for name in expected} == expected


@pytest.mark.parametrize(
    "caption",
    [
        "", " ", "...", "12 34", "\u200b", "🐰🐰🐰", "\ud800", "赤い車が左から右へ走る。",
        "Der Mann geht in das Haus und die Frau kocht in der Küche. Ein rotes Auto steht links.",
        "Un homme marche dans la rue avec un chien noir. Il y a une voiture rouge à gauche.",
        "El perro corre por el campo y una mujer con un vestido rojo camina a la izquierda.",
    ],
)  # fmt: skip
def test_empty_or_foreign_text_says_nothing(caption: str) -> None:
    assert analyse(caption) == EMPTY


def test_results_stand_in_order_and_do_not_depend_on_their_neighbours() -> None:
    captions = ["", "A red car.", "赤い車", *(caption for caption, _ in CAPTIONS)]
    assert RulesAnalyser().analyse(captions) == [analyse(caption) for caption in captions]
    assert RulesAnalyser().analyse([]) == []


def test_nothing_is_reported_twice() -> None:
    outcome = analyse("A red car stands on the left. A red car stands on the left.")
    assert [len(outcome.color), len(outcome.spatial_relationship), len(outcome.subject)] == [1, 1, 1]


@pytest.mark.parametrize(
    "caption",
    [
        "A red car drives past the house. " * 1500,
        "red " * 12_500, "a" * 50_000, "the left " * 6000, "(" * 50_000, "the the, " * 6000, "- " * 25_000,
        "the dog and " * 4500,
    ],
    ids=range(8),
)  # fmt: skip
def test_a_caption_of_50_000_characters_takes_bounded_time(caption: str) -> None:
    analyse("Load the model.")
    started = time.process_time()
    analyse(caption)
    assert time.process_time() - started < 5


def test_a_long_caption_is_cut_after_a_sentence() -> None:
    head = "A red car stands on the left. " * (MAX_CHARACTERS // 30)
    outcome = analyse(head + "A green bird flies over the blue lake and never lands again.")
    assert {one.color for one in outcome.color} == {"red"}


_WORDS = st.sampled_from(
    "the a left right red blue dog man woman camera background in on of behind to is runs stands and , . - "
    "not tree against pans which it he".split()
)
_TEXT = st.text(st.characters(codec=None), max_size=80)
_SENTENCES = st.lists(_WORDS, max_size=30).map(" ".join)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(_SENTENCES | _TEXT | st.tuples(_SENTENCES, _TEXT).map(" ".join))
@example("HE\ud800")
def test_no_text_raises_and_nothing_is_invented(caption: str) -> None:
    outcome = analyse(caption)
    output = caption.lower()
    texts: list[str] = [*outcome.subject, *outcome.background, *outcome.scene]
    for one in (*outcome.dynamic_degree, *outcome.human_action):
        texts += one.action.split()
        texts += one.agent.split() if one.agent not in {"man", "woman", "person"} else []
    assert {one.agent for one in outcome.human_action} <= {"man", "woman", "person"}
    texts += [text for one in outcome.color for text in (one.color, *one.object.split())]
    texts += [text for one in outcome.spatial_relationship for text in (one.location, *one.object.split())]
    assert all(text and text in output for text in texts)


def test_id_depends_on_rules_model_and_library(monkeypatch: pytest.MonkeyPatch) -> None:
    consumes = RulesAnalyser().consumes()
    assert (consumes["analyser"], consumes["model_version"]) == ("rules", "3.8.0")
    assert consumes["spacy"].startswith("3.8")
    monkeypatch.setattr(rules, "MODEL_PACKAGE", "no-such-model")
    with pytest.raises(PrerequisiteError, match=r"pip install 'slvmeval\[build\]'"):
        RulesAnalyser().consumes()


def test_asking_for_the_id_does_not_load_the_model_and_loading_warns_of_nothing() -> None:
    code = (
        "import sys; from tasks.captions.rules import RulesAnalyser; RulesAnalyser().consumes(); "
        "assert 'spacy' not in sys.modules; RulesAnalyser().analyse(['A dog runs.'])"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], check=False, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


def test_is_english() -> None:
    assert all(map(is_english, ("A red car.", "Red cars race past green trees.", "Two dogs run.")))
    assert not any(map(is_english, ("ein Auto", "", "La voiture rouge est dans la rue.")))


def test_the_demonstration_captions_feed_every_aspect() -> None:
    file = Path(__file__).parents[3] / "slvmeval" / "demo" / "captions" / "big_buck_bunny.jsonl"
    captions = [json.loads(line)["caption"] for line in file.read_text(encoding="utf-8").splitlines()]
    outcome = RulesAnalyser().analyse(captions)

    for field, share in (("subject", 0.9), ("color", 0.9), ("background", 0.8), ("dynamic_degree", 0.8)):
        assert np.mean([bool(getattr(analysis, field)) for analysis in outcome]) > share
    sides = re.compile(r"\b(left|right)\b")
    placed = [any(sides.search(one.location) for one in each.spatial_relationship) for each in outcome]
    assert np.mean(placed) > 0.5
