"""The suite itself: dimensions and scales, settings, criteria of a user's own, the authors' prompt file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.ids import canonical_json
from storage_schemas.store import Store
from tasks.scoring.setup import Setup
from tasks.scoring.suites.base import ScoredVideo
from tasks.scoring.suites.registry import make_suite, settings_of_variant, suite_variants
from tasks.scoring.suites.video_bench.chain_of_query import ChainOfQuery
from tasks.scoring.suites.video_bench.dimensions import ALIGNMENT, BY_NAME, DIMENSIONS, QUALITY
from tasks.scoring.suites.video_bench.few_shot import FewShot
from tasks.scoring.suites.video_bench.settings import VideoBenchSettings
from tests.tasks.scoring.sides import FrameList, flat
from tests.tasks.scoring.suites.video_bench.talking import (
    MODELS,
    PROMPT,
    Talk,
    setup,
    suite,
    video,
)
from tests.tiny_models.faulty_server import FaultyServer


def test_nine_dimensions_with_the_paper_s_scales(tmp_path: Path) -> None:
    with FaultyServer(Talk(), MODELS) as server:
        made = suite(tmp_path, server)
        assert [one.name for one in made.dimensions] == list(BY_NAME)
        scales = {one.name: (one.low, one.high) for one in DIMENSIONS}
        threes = {name for name, scale in scales.items() if scale == (1, 3)}
        assert threes == {f"{what}_consistency" for what in ("object_class", "action", "color", "scene")}
        assert set(scales.values()) == {(1, 3), (1, 5)}
        assert [one.group for one in DIMENSIONS].count(QUALITY) == 4
        assert len(DIMENSIONS) == 9
        for one in DIMENSIONS:
            scorer = made.scorer(one.name)
            scorer.check()
            assert scorer.batch == ("prompt" if one.group == QUALITY else "video")
            canonical_json(scorer.settings())
        with pytest.raises(UserInputError, match="did you mean color_consistency"):
            made.scorer("colour_consistency")


@pytest.mark.parametrize("name", list(BY_NAME))
def test_what_models_are_told_has_every_point_of_the_scale_and_no_gap(name: str) -> None:
    dimension, settings = BY_NAME[name], VideoBenchSettings()
    if dimension.group == ALIGNMENT:
        systems = dict(ChainOfQuery(dimension, settings).systems)
        assert len(set(systems.values())) == 5
        told = systems["score"]
        # who describes is not to know what is asked for
        assert "prompt" not in systems["describe"].lower()
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


def test_colours_are_told_where_the_paper_tells_them() -> None:
    told = ChainOfQuery(BY_NAME["color_consistency"], VideoBenchSettings()).systems
    # appendix F: what is no change of colour is known to those who look, not to the one who scores
    for name in ("describe", "first assistant", "answer"):
        assert "sunlight" in told[name].lower()
    assert "sunlight" not in told["score"].lower() + told["second assistant"].lower()
    for name in ("describe", "score"):
        assert all(word in told[name].lower() for word in ("black", "white", "grey or cream"))
    # the middle grade is weighed before 1 or 2
    assert "before you give 1 or 2" in told["score"]


def test_aesthetics_are_judged_with_the_prompt_in_view() -> None:
    settings = VideoBenchSettings()
    told = {
        one.name: FewShot(one, settings).system.split("Look at this:")[1].split("The scale")[0]
        for one in DIMENSIONS
        if one.group == QUALITY
    }
    assert [name for name, words in told.items() if "prompt" in words] == ["aesthetic_quality"]


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
def test_settings_that_do_not_fit(tmp_path: Path, settings: dict[str, Any], said: str) -> None:
    with FaultyServer(Talk(), MODELS) as server, pytest.raises(UserInputError, match=said):
        make_suite("video-bench", setup(tmp_path, server), settings)


def test_a_model_that_the_server_does_not_have_is_said_before_any_work(tmp_path: Path) -> None:
    with FaultyServer(Talk(), [MODELS[0]]) as server:
        made = suite(tmp_path, server)
        made.scorer("imaging_quality").check()
        with pytest.raises(PrerequisiteError, match="gpt-4o-mini"):
            made.scorer("color_consistency").check()


def test_only_what_a_score_depends_on_is_in_its_settings(tmp_path: Path) -> None:
    with FaultyServer(Talk(), MODELS) as server:

        def changed(name: str, **settings: Any) -> bool:
            usual = suite(tmp_path, server).scorer(name).settings()
            return suite(tmp_path, server, **settings).scorer(name).settings() != usual

        high = {"model": MODELS[0], "detail": "high"}
        assert changed("color_consistency", multimodal=high)
        assert changed("imaging_quality", multimodal=high)
        assert changed("imaging_quality", shots=3)
        assert not changed("color_consistency", shots=3)
        assert changed("color_consistency", questions=1)
        assert not changed("imaging_quality", questions=1)
        assert changed("motion_effects", grid=False)
        assert not changed("imaging_quality", grid=False)
        assert not changed("motion_effects", grid={})
        assert changed("aesthetic_quality", quality_prompt=[])
        assert not changed("imaging_quality", quality_prompt=[])
        assert changed("imaging_quality", fps=1)
        assert changed("scene_consistency", most_frames=9)
        other = {"model": MODELS[1], "temperature": 0.5}
        assert changed("scene_consistency", language=other)
        assert not changed("imaging_quality", language=other)
        # how long answers are guessed to be changes none
        guess = {"model": MODELS[0], "thinking_tokens": 9}
        assert not changed("imaging_quality", multimodal=guess)


def test_each_ablation_changes_the_dimensions_that_its_table_has(tmp_path: Path) -> None:
    quality = {one.name for one in DIMENSIONS if one.group == QUALITY}
    alignment = set(BY_NAME) - quality
    in_grids = {"temporal_consistency", "motion_effects"}
    expected = {
        "single-request": set(BY_NAME),
        "without-few-shot": quality,
        "without-chain-of-query": alignment,
        "without-grid": in_grids,
        "gpt-4o-2024-11-20": set(BY_NAME),
        "3-shot": quality,
        "5-shot": quality,
    }
    with FaultyServer(Talk(), MODELS) as server:
        site = setup(tmp_path, server)

        def settings_of(**settings: Any) -> dict[str, Any]:
            made = make_suite("video-bench", site, settings)
            return {one.name: made.scorer(one.name).settings() for one in made.dimensions}

        usual = settings_of()
        changed = {
            name: {
                one
                for one, mine in settings_of(**settings_of_variant("video-bench", name, {})).items()
                if mine != usual[one]
            }
            for name in suite_variants("video-bench")
            if name != "baselines"
        }
        single = settings_of(single_request=True)
        # HU-GPT is made of the single parts
        without = settings_of(chain_of_query=False, shots=1, grid=False)
    assert changed == expected
    assert single == without


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


def test_settings_of_a_variant_are_the_paper_s_or_the_user_s() -> None:
    assert settings_of_variant("video-bench", "", {"fps": 1}) == {"fps": 1}
    assert settings_of_variant("video-bench", "3-shot", {"fps": 1}) == {"shots": 3, "fps": 1}
    assert settings_of_variant("video-bench", "mine", {"fps": 1}) == {"fps": 1}


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
    (still,) = scorer.score(PROMPT, [video("a", FrameList([flat(90)] * 4))])
    assert isinstance(still, ScoredVideo)
    assert (still.value, scorer.dimension.name, scorer.dimension.high) == (0.0, "motion_effects", 1.0)
    assert still.details["metric"] == "dynamic_degree by dis"
    (other,) = (
        make_suite("video-bench", site, {"baselines": "cpu-approx"})
        .scorer("motion_effects")
        .score(PROMPT, [video("a", FrameList([flat(90)] * 4))])
    )
    assert isinstance(other, ScoredVideo)
    # raw scores of the aesthetic head end at 10
    assert made.dimension("aesthetic_quality").high == 10
    with pytest.raises(PrerequisiteError, match=r"tiny-clip.*is the setting baselines here"):
        made.scorer("temporal_consistency").check()
    assert made.scorer("aesthetic_quality").pool == "h100"
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
    (criteria / "color_consistency.txt").write_text("\n".join(lines[:-1]), encoding="utf-8")
    with pytest.raises(UserInputError, match="section 'notes' is missing"):
        ChainOfQuery(color, mine)
    (criteria / "color_consistency.txt").write_text("", encoding="utf-8")
    with pytest.raises(UserInputError, match="it is empty"):
        ChainOfQuery(color, mine)
    with pytest.raises(UserInputError, match="is not a folder"):
        ChainOfQuery(color, VideoBenchSettings(prompts=str(tmp_path / "nowhere")))


def test_the_authors_prompt_file(tmp_path: Path) -> None:
    entries = [
        {"prompt": "Somebody whistles", "dimension": "action"},
        {"prompt": "A teal kettle", "dimension": "color"},
        {"prompt": "A grey kettle", "dimension": "color"},
        {"prompt": "A kettle on the moon", "dimension": "overall_consistency"},
        {"prompt_en": "A harbour ", "dimension": ["scene", "imaging_quality"]},
    ]
    file = tmp_path / "full.json"
    file.write_text(json.dumps(entries), encoding="utf-8")
    with FaultyServer(Talk(), MODELS) as server:
        made = suite(tmp_path, server)
        prompts = made.read_prompts(file)
        assert prompts is not None
        assert [one.prompt_id for one in prompts] == [
            "action-001", "color-001", "color-002", "overall_consistency-001", "scene-001",
        ]  # fmt: skip
        # the prompts on actions serve the moving dimensions, those on everything the still ones
        assert [one.dimensions for one in prompts] == [
            ("action_consistency", "temporal_consistency", "motion_effects"),
            ("color_consistency",),
            ("color_consistency",),
            ("video_text_consistency", "imaging_quality", "aesthetic_quality"),
            ("scene_consistency", "imaging_quality"),
        ]
        assert prompts[-1].text == "A harbour"
        assert prompts[0].theme == "action"
        file.write_text(json.dumps({"0": "One.", "1": "Two."}), encoding="utf-8")
        numbered = made.read_prompts(file)
        assert numbered is not None
        assert [(one.prompt_id, one.text, one.dimensions) for one in numbered] == [
            ("0", "One.", ()),
            ("1", "Two.", ()),
        ]


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
def test_another_file_is_left_to_others(tmp_path: Path, content: str) -> None:
    file = tmp_path / "prompts"
    file.write_text(content, encoding="latin-1")
    with FaultyServer(Talk(), MODELS) as server:
        assert suite(tmp_path, server).read_prompts(file) is None


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"prompt": "", "dimension": "color"}, "entry 2 has no prompt"),
        ({"prompt": "a", "dimension": "colour"}, "there is no dimension 'colour'"),
        ({"prompt": "a", "dimension": []}, "has no dimension"),
        ("a", "is no object"),
    ],
)
def test_a_damaged_entry_of_the_authors_file_is_named(tmp_path: Path, entry: Any, said: str) -> None:
    file = tmp_path / "full.json"
    file.write_text(json.dumps([{"prompt": "a", "dimension": "color"}, entry]), encoding="utf-8")
    with FaultyServer(Talk(), MODELS) as server, pytest.raises(UserInputError, match=said):
        suite(tmp_path, server).read_prompts(file)
