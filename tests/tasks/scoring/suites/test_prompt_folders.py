"""The prompts of a made-up paper go through every system that judges."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tasks.extras.locot2v.askers import LiveAsker, roles_of
from tasks.extras.locot2v.dimensions import HERD_NAMES
from tasks.extras.locot2v.events import event_clips
from tasks.extras.video_bench.dimensions import BY_NAME
from tasks.llm.prompt_files import require_prompts
from tasks.llm.usage import NotJudged
from tasks.scoring.base import AspectText
from tasks.scoring.instructions import aspect_text
from tasks.scoring.suites.base import SuitePrompt
from tasks.scoring.suites.shown_videos import SampledVideo
from tests.tasks.extras.locot2v import talking as locot2v
from tests.tasks.extras.video_bench import talking as video_bench
from tests.tasks.llm.made_up_paper import check_only_marked_were_sent, write_marked
from tests.tasks.scoring.judges import test_video_score as video_score
from tests.tasks.scoring.one_source import ASPECTS, OneSource, judged
from tests.tasks.scoring.suites.told import Told, film
from tests.tiny_models.faulty_server import Reply

AREAS = ("judges", "descriptions", "video-bench", "video-bench-criteria", "locot2v-bench")
#: The judges of a pair: of frames, of frames with their times, with the aspect at the end, of descriptions.
JUDGES = ("video", "video?intervals=true", "video?layout=aspect-last", "text")
JUDGES += ("video?layout=aspect-last&intervals=true",)


class Described(OneSource):
    """A pair of each aspect, described by a folder of prompts."""

    folder = ""

    def text(self, aspect: str, dimension: str, prompts: str) -> AspectText:
        return aspect_text(aspect, dimension or aspect, self.folder)


def of_judges(server: Told, folder: str) -> Iterator[Any]:
    """Yield what the judges of a model are told: the videos, the captioner and the texts."""
    described, chosen = ({"description": "A ball."}, {"better": "first", "intervals": []})
    for number, judge in enumerate(JUDGES):
        # the texts of aspects are read by the same code for all judges
        pairs = Described(ASPECTS[: 2 if number else None], frames=2, width=32, height=16)
        object.__setattr__(pairs, "folder", folder)
        server.say(
            lambda _, body: Reply(json.dumps(chosen if '"better"' in json.dumps(body) else described)), ["m"]
        )
        kind, _, more = judge.partition("?")
        choice = f"vlm-{kind}?vlm=mine&model=m&server=s&frames=all&prompts={folder}&{more}".rstrip("&")
        rows, _ = judged(
            server.folder / f"judge-{number}", server.url, choice.replace("prompts=&", ""), pairs
        )
        assert all(row.answered for row in rows), rows[0].message
        yield from (seen.body for seen in server.seen if "messages" in seen.body)


def of_video_score(folder: str) -> Iterator[Any]:
    """Yield what VideoScore reads."""
    scorer, model = video_score.planted(prompts=folder)
    scorer.score("a ball", video_score.cut_video([4, 5]), video_score.aspect("color"))
    yield from (text for _, text in model.asked)


def of_video_bench(server: Told, folder: str) -> Iterator[Any]:
    """Yield what is asked in every dimension, and in each way of asking."""
    films = [video_bench.video(name, film(luma=luma)) for name, luma in (("a", 100), ("b", 60))]
    # both assistants ask one question: the server knows the second by our words alone
    answers = ["Yes.", "No."]
    scores = [{"video": number, "reason": "Seen.", "score": 3} for number in (1, 2)]
    usual = {"few-shot": {"scores": scores}, "answer": {"description": "A red ball.", "answers": answers}}
    silent = {"analysis": "Fine.", "questions": []}
    none = {"first assistant": silent, "second assistant": silent}
    asked = [(name, usual, {}) for name in BY_NAME]
    asked += [("color_consistency", usual, {"chain_of_query": False})]
    asked += [("color_consistency", usual, {"chained_questions": True})]
    asked += [("scene_consistency", {**none, "answer": {"description": "A ball.", "answers": []}}, {})]
    for repeat, (name, says, settings) in enumerate(asked):
        server.say(video_bench.Talk(says), video_bench.MODELS)
        scorer = video_bench.suite(server, prompts=folder, **settings).scorer(name)
        # another repeat gets its own answers
        results = scorer.score(video_bench.PROMPT, films, repeat)
        assert not [one for one in results if isinstance(one, NotJudged)]
        yield from (seen.body for seen in server.seen if "messages" in seen.body)


def of_locot2v(server: Told, folder: str) -> Iterator[Any]:
    """Yield what is asked in the dimensions that ask models, and of the places of events."""
    server.say(locot2v.Talk(), locot2v.MODELS)
    questions = {HERD_NAMES[0]: [{"question": "Is it calm?", "polarity": "positive"}]}
    base = locot2v.PROMPT
    prompt = SuitePrompt(prompt_id="p", text=base.text, details={**base.details, "questions": questions})
    for name in ("overall_alignment", "event_alignment", "human_action", "theme_clarity", HERD_NAMES[0]):
        locot2v.value(locot2v.score(server, name, prompt, prompts=folder))
    settings = locot2v.suite(server, prompts=folder).settings
    shown = SampledVideo("digest", film())
    event_clips(LiveAsker(roles_of(locot2v.setup(server), settings)), prompt, shown, settings)
    yield from (seen.body for seen in server.seen if "messages" in seen.body)


def test_a_made_up_paper_s_words_are_all_that_every_system_is_told(listening: Told, tmp_path: Path) -> None:
    folder = str(write_marked(tmp_path / "made-up", *AREAS))
    require_prompts(folder)
    systems = {
        "judges": of_judges(listening, folder),
        "videoscore": of_video_score(folder),
        "video-bench": of_video_bench(listening, folder),
        "locot2v-bench": of_locot2v(listening, folder),
    }
    bodies: list[Any] = []
    for name, asked in systems.items():
        # a store of its own
        listening.folder = tmp_path / name
        listening.folder.mkdir()
        bodies += asked
    check_only_marked_were_sent(bodies, *AREAS)
