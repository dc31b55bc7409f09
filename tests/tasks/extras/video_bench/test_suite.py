"""The suite itself: dimensions, settings, what raters read, criteria of a user's own, prompt files."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.ids import canonical_json
from storage_schemas.store import Store
from tasks.extras.video_bench.chain_of_query import ChainOfQuery
from tasks.extras.video_bench.dimensions import ALIGNMENT, BY_NAME, DIMENSIONS, QUALITY
from tasks.extras.video_bench.few_shot import FewShot
from tasks.extras.video_bench.settings import VideoBenchSettings
from tasks.extras.video_bench.suite import VideoBench
from tasks.scoring.setup import Setup
from tasks.scoring.suites.base import ScoredVideo
from tasks.scoring.suites.guide import Guide, own_guide
from tasks.scoring.suites.registry import make_suite, settings_of_variant, suite_variants
from tests.tasks.extras.video_bench.talking import MODELS, PROMPT, Talk, setup, suite, video
from tests.tasks.scoring.sides import FrameList, flat
from tests.tasks.scoring.suites.told import Told, film
from tests.tasks.scoring.suites.told import text as text_of


def test_nine_dimensions_with_the_paper_s_scales(server: Told) -> None:
    made = suite(server)
    assert [one.name for one in made.dimensions] == list(BY_NAME) == [one.name for one in DIMENSIONS]
    threes = {f"{what}_consistency" for what in ("object_class", "action", "color", "scene")}
    assert [one.group for one in DIMENSIONS].count(QUALITY) == 4
    assert len(DIMENSIONS) == 9
    for one in DIMENSIONS:
        assert (one.low, one.high) == (1, 3 if one.name in threes else 5)
        scorer = made.scorer(one.name)
        scorer.check()
        assert scorer.batch == ("prompt" if one.group == QUALITY else "video")
        canonical_json(scorer.settings())
    with pytest.raises(UserInputError, match="did you mean color_consistency"):
        made.scorer("colour_consistency")
    # a model that the server does not have is reported before any work
    server.say(Talk(), [MODELS[0]])
    made.scorer("imaging_quality").check()
    with pytest.raises(PrerequisiteError, match="gpt-4o-mini"):
        made.scorer("color_consistency").check()


@pytest.mark.parametrize("name", list(BY_NAME))
def test_what_models_are_told_has_every_point_of_the_scale_and_no_gap(name: str) -> None:
    dimension, settings = BY_NAME[name], VideoBenchSettings()
    if dimension.group == ALIGNMENT:
        systems = dict(ChainOfQuery(dimension, settings).systems)
        assert len(set(systems.values())) == 5
        told = systems["score"]
        # who describes is not to know what is asked for
        assert "prompt" not in systems["describe"].lower()
        # appendix F: each assistant has example questions
        for assistant in ("first assistant", "second assistant"):
            assert systems[assistant].partition("Such questions are:")[2].count('?"') >= 2
        # what a question assumes is held against the prompt
        assert "assumes something else than the prompt says" in systems["answer"]
        # nothing else decides than the two descriptions, the questions and their answers
        assert "decide" not in told
    else:
        told = FewShot(dimension, settings).system
        systems = {"few-shot": told}
    assert not any("{" in system or "}" in system for system in systems.values())
    points = [line.split(":")[0] for line in told.splitlines() if line[:1].isdigit()]
    assert points == [str(point) for point in range(int(dimension.low), int(dimension.high) + 1)]
    # notes stand where the paper has some: A.1.2 to A.1.5, A.2.4, and a watermark in appendix F alone
    noted = {"motion_effects", *(f"{one}_consistency" for one in ("action", "color", "scene", "video_text"))}
    assert ("Mind this:" in told) == (name in noted)
    assert ("watermark" in " ".join(systems.values())) == (name == "color_consistency")
    assert "\n\n\n" not in told


def test_models_are_told_what_the_paper_tells_of_colours_motion_and_scenes() -> None:
    told = ChainOfQuery(BY_NAME["color_consistency"], VideoBenchSettings()).systems
    # appendix F: what is not a change of colour is known to those who look, not to the one who scores
    for name in ("describe", "first assistant", "answer"):
        assert "sunlight" in told[name].lower()
    assert "sunlight" not in told["score"].lower() + told["second assistant"].lower()
    for name in ("describe", "score"):
        assert all(word in told[name].lower() for word in ("black", "white", "grey or cream"))
    # the middle grade is weighed before 1 or 2
    assert "before you give 1 or 2" in told["score"]
    # aesthetics are judged with the prompt in view
    quality = {
        one.name: FewShot(one, VideoBenchSettings()).system.split("Look at this:")[1].split("The scale")[0]
        for one in DIMENSIONS
        if one.group == QUALITY
    }
    assert [name for name, words in quality.items() if "prompt" in words] == ["aesthetic_quality"]
    assert "exaggerated" in FewShot(BY_NAME["motion_effects"], VideoBenchSettings()).system
    scene = ChainOfQuery(BY_NAME["scene_consistency"], VideoBenchSettings()).systems["score"]
    assert "the fullest that generators show" in scene


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"shot": 3}, "did you mean shots"),
        ({"multimodal": "gpt-4o-2042"}, "not a predefined model"),
        ({"multimodal": {"model": "gpt-4o-mini", "detial": "high"}}, "did you mean detail"),
        ({"language": {"server": "openai"}}, "language: give the model's name"),
        ({"grid": {"dimensions": ["colour"]}}, "no dimension 'colour'"),
        ({"quality_prompt": ["color_consistency"]}, "no quality dimension 'color_consistency'"),
        ({"quality_prompt": True}, "quality_prompt"),
        ({"shots": 0}, "shots"),
        ({"grid": {"rows": 0}}, "grid.rows"),
        ({"rest": "drop"}, "rest"),
        ({"single_request": True, "grid": {"rows": 2}}, "leave out grid"),
        ({"single_request": True, "chain_of_query": True}, "leave out chain_of_query"),
        ({"baselines": {"semantic": "clip"}, "shots": -1}, "shots"),
    ],
)
def test_settings_that_do_not_fit(server: Told, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UserInputError, match=said):
        make_suite("video-bench", setup(server), settings)


@pytest.mark.parametrize(
    ("settings", "changed", "same"),
    [
        ({"multimodal": {"model": MODELS[0], "detail": "high"}}, "color_consistency imaging_quality", ""),
        ({"shots": 3}, "imaging_quality", "color_consistency"),
        ({"questions": 1}, "color_consistency", "imaging_quality"),
        ({"grid": False}, "motion_effects", "imaging_quality"),
        ({"grid": {}}, "", "motion_effects"),
        ({"quality_prompt": []}, "aesthetic_quality", "imaging_quality"),
        ({"fps": 1}, "imaging_quality", ""),
        ({"most_frames": 9}, "scene_consistency", ""),
        ({"language": {"model": MODELS[1], "temperature": 0.5}}, "scene_consistency", "imaging_quality"),
        # how long answers are guessed to be changes none
        ({"multimodal": {"model": MODELS[0], "thinking_tokens": 9}}, "", "imaging_quality"),
    ],
)
def test_settings_hold_what_counts(server: Told, settings: dict[str, Any], changed: str, same: str) -> None:
    usual, other = suite(server), suite(server, **settings)
    for name in f"{changed} {same}".split():
        equal = other.scorer(name).settings() == usual.scorer(name).settings()
        assert equal == (name in same.split()), name


def test_each_ablation_changes_the_dimensions_that_its_table_has(server: Told) -> None:
    quality = {one.name for one in DIMENSIONS if one.group == QUALITY}
    usual_site = setup(server)
    # a model that takes no JSON Schema has a server of its own
    plain = usual_site.model_servers["openai"].model_copy(update={"structured": "json"})
    servers = {**usual_site.model_servers, "openai-without-schemas": plain}
    site = usual_site.model_copy(update={"model_servers": servers})

    def settings_of(**settings: Any) -> dict[str, Any]:
        made = make_suite("video-bench", site, settings)
        return {one.name: made.scorer(one.name).settings() for one in made.dimensions}

    usual = settings_of()
    changed = {}
    for name in set(suite_variants("video-bench")) - {"baselines"}:
        mine = settings_of(**settings_of_variant("video-bench", name, {}))
        changed[name] = {one for one in mine if mine[one] != usual[one]}
    assert changed == {
        "single-request": set(BY_NAME),
        "without-few-shot": quality,
        "without-chain-of-query": set(BY_NAME) - quality,
        "without-grid": {"temporal_consistency", "motion_effects"},
        "gpt-4o-2024-05-13": set(BY_NAME),
        "gpt-4o-2024-11-20": set(BY_NAME),
        "3-shot": quality,
        "5-shot": quality,
    }
    # HU-GPT is made of the single parts
    assert settings_of(single_request=True) == settings_of(chain_of_query=False, shots=1, grid=False)


@pytest.mark.parametrize(
    ("variant", "settings", "said"),
    [
        ("3-shots", {}, "it has baselines, single-request"),
        ("3-shot", {"shots": 4}, "sets shots"),
        ("blurred", {"shots": 4}, "does not begin with blur"),
        ("a+b", {"shots": 4}, "a name has letters"),
    ],
)
def test_a_name_of_a_variant_that_does_not_fit(variant: str, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UserInputError, match=said):
        settings_of_variant("video-bench", variant, settings)
    # else they are the paper's or the user's
    for name, sets in (("", {}), ("3-shot", {"shots": 3}), ("mine", {})):
        assert settings_of_variant("video-bench", name, {"fps": 1}) == {"fps": 1, **sets}


def test_baselines_score_by_a_metric_on_its_own_scale(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "store")
    site = Setup(store_path=str(store.root))
    given = {"base": "cpu-approx", "semantic_pictures": {"model": "tiny-clip"}}
    made = make_suite("video-bench", site, {"baselines": given})
    assert [one.name for one in made.dimensions] == [
        "aesthetic_quality", "temporal_consistency", "motion_effects",
    ]  # fmt: skip
    # no model is needed for flow; a still film does not move
    scorer = made.scorer("motion_effects")
    scorer.check()
    other = make_suite("video-bench", site, {"baselines": "cpu-approx"}).scorer("motion_effects")
    for one in (scorer, other):
        (still,) = one.score(PROMPT, [video("a", FrameList([flat(90)] * 4))])
        assert isinstance(still, ScoredVideo)
        assert (still.value, one.dimension.name, one.dimension.high) == (0.0, "motion_effects", 1.0)
        assert still.details["metric"] == "dynamic_degree by dis"
    # raw scores of the aesthetic head end at 10
    assert made.dimension("aesthetic_quality").high == 10
    with pytest.raises(PrerequisiteError, match=r"tiny-clip.*is the setting baselines here"):
        made.scorer("temporal_consistency").check()
    assert made.scorer("aesthetic_quality").hardware == "gpu"
    with pytest.raises(UserInputError, match="they score aesthetic_quality, temporal"):
        made.scorer("imaging_quality")
    # a prompts file still names all nine
    assert list(made.prompt_dimensions) == list(BY_NAME)
    with pytest.raises(UserInputError, match="semantik"):
        make_suite("video-bench", site, {"baselines": {"semantik": 1}}).scorer("motion_effects")


def test_criteria_of_a_user_s_own(tmp_path: Path) -> None:
    own = tmp_path / "own"
    criteria, steps = own / "video-bench-criteria", own / "video-bench"
    criteria.mkdir(parents=True)
    steps.mkdir()
    ours = VideoBenchSettings()
    mine = VideoBenchSettings(prompts=str(own))
    color, scene = BY_NAME["color_consistency"], BY_NAME["scene_consistency"]
    assert ChainOfQuery(color, mine).systems == ChainOfQuery(color, ours).systems
    sections = ("meaning", "describe", "first assistant", "second assistant", "look again", "scale", "notes")
    lines = [f"# {name}\nWords on {name}.\n" for name in sections]
    (criteria / "color_consistency.txt").write_text("\n".join(lines), encoding="utf-8")
    (steps / "score.txt").write_text("Score {meaning} by {scale}", encoding="utf-8")
    told = ChainOfQuery(color, mine).systems
    assert told["score"] == "Score Words on meaning. by Words on scale."
    assert "Words on second assistant." in told["second assistant"]
    assert ChainOfQuery(scene, mine).systems["describe"] == ChainOfQuery(scene, ours).systems["describe"]
    for text, said in (("\n".join(lines[:-1]), "section 'notes' is missing"), ("", "it is empty")):
        (criteria / "color_consistency.txt").write_text(text, encoding="utf-8")
        with pytest.raises(UserInputError, match=said):
            ChainOfQuery(color, mine)
    with pytest.raises(UserInputError, match="is not a folder"):
        ChainOfQuery(color, VideoBenchSettings(prompts=str(tmp_path / "nowhere")))


def test_the_authors_prompt_file(server: Told) -> None:
    entries = [
        {"prompt": "Somebody whistles", "dimension": "action"},
        {"prompt": "A teal kettle", "dimension": "color"},
        {"prompt": "A grey kettle", "dimension": "color"},
        {"prompt": "A kettle on the moon", "dimension": "overall_consistency"},
        {"prompt_en": "A harbour ", "dimension": ["scene", "imaging_quality"]},
    ]
    file = server.folder / "full.json"
    file.write_text(json.dumps(entries), encoding="utf-8")
    made = suite(server)
    prompts = made.read_prompts(file)
    assert prompts is not None
    # the prompts on actions serve the moving dimensions, those on everything the still ones
    assert [(one.prompt_id, *one.dimensions) for one in prompts] == [
        ("action-001", "action_consistency", "temporal_consistency", "motion_effects"),
        ("color-001", "color_consistency"),
        ("color-002", "color_consistency"),
        ("overall_consistency-001", "video_text_consistency", "imaging_quality", "aesthetic_quality"),
        ("scene-001", "scene_consistency", "imaging_quality"),
    ]
    assert (prompts[-1].text, prompts[0].theme) == ("A harbour", "action")
    file.write_text(json.dumps({"0": "One.", "1": "Two."}), encoding="utf-8")
    numbered = [(one.prompt_id, one.text, one.dimensions) for one in made.read_prompts(file) or ()]
    assert numbered == [("0", "One.", ()), ("1", "Two.", ())]


@pytest.mark.parametrize(
    "content",
    [
        "prompt_id,text\na,b\n",
        '{"prompt_id": "a", "text": "b"}',
        '[{"text": "a"}]',
        "[]",
        "{}",
        "[1]",
        "\xff",
    ],
)
def test_another_file_is_left_to_others(server: Told, content: str) -> None:
    file = server.folder / "prompts"
    file.write_text(content, encoding="latin-1")
    assert suite(server).read_prompts(file) is None


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"prompt": "", "dimension": "color"}, "entry 2 has no prompt"),
        ({"prompt": "a", "dimension": "colour"}, "there is no dimension 'colour'"),
        ({"prompt": "a", "dimension": []}, "has no dimension"),
        ("a", "is not an object"),
    ],
)
def test_read_prompts_names_a_damaged_entry(server: Told, tmp_path: Path, entry: Any, said: str) -> None:
    file = tmp_path / "full.json"
    file.write_text(json.dumps([{"prompt": "a", "dimension": "color"}, entry]), encoding="utf-8")
    with pytest.raises(UserInputError, match=said):
        suite(server).read_prompts(file)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Setup:
    return Setup(store_path=str(Store.create(tmp_path_factory.mktemp("store") / "store").root))


def test_every_dimension_has_a_guide_with_the_levels_of_its_scale(site: Setup) -> None:
    suite = VideoBench(site)
    for dimension in DIMENSIONS:
        parts = []
        for language in ("en", "ja"):
            guide = suite.guide(dimension.name, language)
            assert guide is not None
            scale = range(int(dimension.low), int(dimension.high) + 1)
            assert [level for level, _ in guide.levels] == list(scale)
            told = [guide.meaning, *guide.look_at, *guide.notes, *(words for _, words in guide.levels)]
            assert not re.search(r"\b(model|JSON|samples|frames are)\b", " ".join(told))
            assert (language == "ja") == bool(re.search("[ぁ-ん]", " ".join(told)))
            parts.append((len(guide.look_at), len(guide.notes)))
        assert parts[0] == parts[1]


def test_a_users_prompts_are_the_raters_too(site: Setup, tmp_path: Path) -> None:
    folder = tmp_path / "own" / "video-bench-criteria"
    folder.mkdir(parents=True)
    text = "# meaning\nMine.\n# look at\n- Here.\n# scale\n1: a\n2: b\n3: c\n4: d\n5: e\n# notes\n- None.\n"
    (folder / "imaging_quality.txt").write_text(text)
    made = VideoBench(site.model_copy(update={"prompts": str(tmp_path / "own")}))
    guide = made.guide("imaging_quality", "en")
    assert guide is not None
    assert (guide.title, guide.meaning, guide.levels[4]) == ("Imaging quality", "Mine.", (5, "e"))
    assert made.guide("imaging_quality", "fr") is None
    # full-width colons are levels too
    text = "# title\n見た目\n# meaning\n意味\n# scale\n1：悪い\n2：良い\n"
    guide = Guide.read("look", "Look", "ja", text, "x")
    assert (guide.title, guide.levels) == ("見た目", ((1, "悪い"), (2, "良い")))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# meaning\nx\n", "one line for each level"),
        ("# meaning\nx\n# scale\n1: a\n3: b\n", "one line for each level"),
        ("# scale\n1: a\n2: b\n", "'meaning' is missing"),
        ("", "cannot be read: it is a folder, not a file"),
    ],
)
def test_a_guide_that_cannot_be_used_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "en").mkdir()
    if text:
        (tmp_path / "en" / "look.txt").write_text(text)
    else:
        (tmp_path / "en" / "look.txt").mkdir()
    with pytest.raises(UserInputError, match=f"look.txt.*{message}"):
        own_guide(tmp_path, "look", "Look", "en")
    assert own_guide(tmp_path, "look", "Look", "ja") is None


@pytest.mark.parametrize(
    ("name", "key", "wording", "sent"),
    [
        ("color_consistency", "score_user", "{prompt}{description}{second_description}A {answers}", "A 1. "),
        ("color_consistency", "video_line", "Look!", "Look!"),
        ("imaging_quality", "numbered_video_line", "Film {number}", "Film 1"),
        ("imaging_quality", "few_shot_user", "{count} of them", "1 of them"),
        ("aesthetic_quality", "few_shot_prompt", "Wanted: {prompt}", "Wanted: A red ball"),
        ("motion_effects", "grid_line", "by {cells}", "Video 1: by 4"),
    ],
)
def test_every_line_around_the_videos_is_a_prompt(
    server: Told, tmp_path: Path, name: str, key: str, wording: str, sent: str
) -> None:
    place = tmp_path / "mine" / "video-bench" / f"{key}.txt"
    place.parent.mkdir(parents=True)
    place.write_text(wording, encoding="utf-8")
    ours, mine = suite(server).scorer(name), suite(server, prompts=str(tmp_path / "mine")).scorer(name)
    # a changed line is another setting
    assert canonical_json(ours.settings()) != canonical_json(mine.settings())
    mine.score(PROMPT, [video("a", film())])
    assert sent in text_of(server.seen[-1].body)
