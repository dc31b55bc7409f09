"""Readers of other people's sets, on small files in the layouts that those publish."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from storage_schemas.errors import UserInputError
from tasks.extras.meta_sets.base import NO_GOLD, LoadedSet
from tasks.extras.meta_sets.fetv import Fetv, read_fetv
from tasks.extras.meta_sets.provider import SETS, descriptions, meta_set, meta_set_from_text
from tasks.extras.meta_sets.uve_bench import UveBench
from tasks.extras.meta_sets.videogen_rewardbench import ASPECTS, VideoGenRewardBench
from tasks.scoring.user_files import MALFORMED
from tasks.scoring.video_folder import VideoFolder
from tests.tasks.scoring.judges.short_films import write_lines

UVE_ROW = {
    "video_a": "modelA/modelA_00007.mp4",
    "video_b": "modelB/modelB_00007.mp4",
    "prompt": None,
    "preference": "B is better",
    "aspect": "dynamic_degree",
    "subaspects": ["dynamic_degree", "subject_motion_degree"],
    "dataset": "bench",
}
HEADER = "path_A,A_model,prompt,fps_A,num_frames_A,path_B,B_model,fps_B,num_frames_B,VQ,MQ,TA,Overall"


def touch(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"film")


def uve(root: Path, rows: dict[str, Any], file: str = "annotations/annotations.json") -> LoadedSet:
    (root / file).parent.mkdir(parents=True, exist_ok=True)
    (root / file).write_text(json.dumps(rows), encoding="utf-8")
    touch(root / "uve_bench_videos/bench", UVE_ROW["video_a"], UVE_ROW["video_b"])
    return UveBench().load(root, None)


def reasons(loaded: LoadedSet) -> dict[str, str]:
    return {one.where: one.reason for one in loaded.left_out}


def test_uve_asks_for_each_subaspect(tmp_path: Path) -> None:
    text = {**UVE_ROW, "prompt": "a ball", "subaspects": ["tv_alignment"], "preference": "same bad"}
    loaded = uve(tmp_path, {"bench-1": UVE_ROW, "bench-2": {**text, "difficulty": "hard"}})
    assert not loaded.left_out
    result = {pair.key: pair for pair in loaded.pairs}
    assert list(result) == ["bench-1-dynamic_degree", "bench-1-subject_motion_degree", "bench-2-tv_alignment"]
    first, last = result["bench-1-dynamic_degree"], result["bench-2-tv_alignment"]
    assert (first.prompt, first.gold, first.aspect) == ("", "b", "dynamic_degree")
    assert first.video_a == tmp_path / "uve_bench_videos/bench/modelA/modelA_00007.mp4"
    assert (last.prompt, last.gold, last.details["difficulty"]) == ("a ball", "tie", "hard")
    # the same prompt's videos are not independent
    assert {pair.group for pair in loaded.pairs} == {"bench-00007"}
    # the four answers
    golds = {"A is better": "a", "B is better": "b", "same good": "tie", "Same  Bad": "tie"}
    pairs = uve(tmp_path, {words: {**UVE_ROW, "preference": words} for words in golds}).pairs
    assert [(pair.details["preference"], pair.gold) for pair in pairs[::2]] == list(golds.items())
    assert [(pair.details["preference"], pair.gold) for pair in pairs[1::2]] == list(golds.items())


def test_rows_of_uve_that_do_not_fit_harm_no_other(tmp_path: Path) -> None:
    rows: dict[str, Any] = {
        "good": UVE_ROW,
        "answer": {**UVE_ROW, "preference": "neither"},
        "missing": {**UVE_ROW, "video_b": "modelC/modelC_00007.mp4"},
        "outside": {**UVE_ROW, "video_a": "../../../secret.mp4"},
        "rooted": {**UVE_ROW, "dataset": "", "video_a": "/etc/passwd"},
        "drive": {**UVE_ROW, "dataset": "", "video_a": "C:\\film.mp4"},
        "no object": "text",
        "no video": {key: value for key, value in UVE_ROW.items() if key != "video_a"},
        "no aspect": {**UVE_ROW, "aspect": None, "subaspects": []},
        "odd prompt": {**UVE_ROW, "prompt": ["a"]},
    }
    loaded = uve(tmp_path, rows, "annotations.json")
    assert {pair.details["id"] for pair in loaded.pairs} == {"good"}
    assert reasons(loaded) == {
        "answer": NO_GOLD,
        "missing": "video_missing",
        "outside": "unsafe_path",
        "rooted": "unsafe_path",
        "drive": "unsafe_path",
        "no object": MALFORMED,
        "no video": MALFORMED,
        "no aspect": MALFORMED,
        "odd prompt": MALFORMED,
    }
    assert loaded.reasons()["unsafe_path"] == 3


def test_a_link_cannot_lead_out_of_the_videos(tmp_path: Path) -> None:
    touch(tmp_path, "outside.mp4", "videos/real.mp4")
    (tmp_path / "videos/link.mp4").symlink_to(tmp_path / "outside.mp4")
    (tmp_path / "videos/empty.mp4").touch()
    videos = VideoFolder(tmp_path / "videos")
    assert videos.find("real.mp4") == tmp_path / "videos/real.mp4"
    for name, why in (("link.mp4", "unsafe_path"), ("empty.mp4", "empty_file"), ("", "unsafe_path")):
        with pytest.raises(Exception, match=why):
            videos.find(name)


@pytest.mark.parametrize(
    ("text", "says"), [("{", "not JSON"), ("[1]", "object of annotations"), ("{}", "object")]
)
def test_a_file_that_is_not_uves_ends_it(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "annotations.json").write_text(text)
    with pytest.raises(UserInputError, match=says):
        UveBench().load(tmp_path, None)
    with pytest.raises(UserInputError, match="no annotations"):
        UveBench().load(tmp_path / "..", None)


def rewardbench(root: Path, *lines: str, header: str = HEADER) -> LoadedSet:
    touch(root, "videos/a.mp4", "videos/b.mp4")
    file = root / "videogen-rewardbench.csv"
    file.write_text("\ufeff" + "\n".join([header, *lines]) + "\n", encoding="utf-8")
    return VideoGenRewardBench().load(root, None)


def test_rewardbench_has_four_answers_a_row(tmp_path: Path) -> None:
    row = 'videos/a.mp4,kling,"a cat, that\nsings",24,120,videos/b.mp4,luma,24,120,A,same,B,'
    loaded = rewardbench(tmp_path, row)
    golds = {pair.aspect: pair.gold for pair in loaded.pairs}
    assert golds == {"visual_quality": "a", "motion_quality": "tie", "text_alignment": "b"}
    assert {pair.prompt for pair in loaded.pairs} == {"a cat, that\nsings"}
    assert loaded.pairs[0].details == {"A_model": "kling", "B_model": "luma"}
    assert reasons(loaded) == {"row 1": NO_GOLD}


def test_rewardbench_with_the_authors_other_column(tmp_path: Path) -> None:
    a, b = "videos/a.mp4", "videos/b.mp4"
    rows = (
        f"{a},{b},a dog,B",
        f"{a},{b},a dog,A",
        f"{a},videos/gone.mp4,a dog,B",
        f"../a.mp4,{b},a dog,B",
        a,
    )
    loaded = rewardbench(tmp_path, *rows, header="path_A,path_B,prompt,ALL")
    (pair,) = loaded.pairs
    assert (pair.aspect, pair.gold) == ("overall", "b")
    assert list(reasons(loaded).values()) == ["video_missing", "unsafe_path", MALFORMED, "duplicate_id"]
    for row, header, said in (
        ("1,2", "x,y", "no column path_A"),
        ("1,2,3", "path_A,path_B,prompt", "VQ or MQ"),
    ):
        with pytest.raises(UserInputError, match=said):
            rewardbench(tmp_path, row, header=header)


def fetv(root: Path) -> Path:
    """Two prompts, the second without a real video; annotators saw not quite the same."""
    prompts = [{"video_id": 100, "prompt": "waves"}, {"video_id": None, "prompt": "a unicorn"}]
    write_lines(root / "fetv_data.json", prompts)
    four, real = {"alignment": 4, "static_quality": 4}, {"video_id": "100", "static_quality": 4}
    for human, model, rows in (
        (0, "ground-truth", [{"0": {**real, "alignment": 5}}]),
        (1, "ground-truth", [{"0": {**real, "alignment": 3}}]),
        (0, "damo-text2video", [{"0": four}, {"1": {"alignment": 2}}]),
        (
            1,
            "zeroscope",
            [{"0": {"alignment": 4}}, {"1": {"alignment": 3}}, {"9": {"alignment": 3}}, {"0": {}}],
        ),
    ):
        write_lines(root / f"manual_eval_results/human{human}/manual_eval_results_{model}.json", rows)
    touch(
        root / "videos", "real_videos/100.mp4", "zeroscope/videos/0.mp4", "zeroscope/videos/1_a unicorn.mp4"
    )
    touch(root / "videos", "modelscope-t2v/videos/0.gif", "modelscope-t2v/videos/1.gif")
    return root


def test_fetv_compares_means_of_those_who_scored_both(tmp_path: Path) -> None:
    loaded = Fetv().load(fetv(tmp_path), None)
    result = {pair.key: pair for pair in loaded.pairs}
    assert {key: pair.gold for key, pair in result.items()} == {
        # annotator 0 gave 5 to the real video and 4 to the model's; annotator 1 never saw the latter
        "0|damo-text2video|ground-truth|alignment": "b",
        "0|damo-text2video|ground-truth|static_quality": "tie",
        # annotator 1 gave 3 and 4; nobody scored both models
        "0|ground-truth|zeroscope|alignment": "b",
    }
    assert result["0|damo-text2video|ground-truth|alignment"].details["scores"] == [4, 5]
    assert result["0|ground-truth|zeroscope|alignment"].video_b.name == "0.mp4"
    assert {pair.prompt for pair in loaded.pairs} == {"waves"}
    assert list(loaded.reasons().items()) == [(MALFORMED, 1), (NO_GOLD, 1)]


def test_videos_of_fetv_are_found_by_all_their_names(tmp_path: Path) -> None:
    files = read_fetv(fetv(tmp_path))
    names = [files.video(model, "1").name for model in ("damo-text2video", "zeroscope")]
    assert names == ["1.gif", "1_a unicorn.mp4"]
    (tmp_path / "videos/real_videos/100.mp4").unlink()
    loaded = Fetv().load(tmp_path, None)
    assert reasons(loaded)["ground-truth, prompt 0"] == "video_missing"
    with pytest.raises(UserInputError, match="no list of prompts"):
        read_fetv(tmp_path / "videos")
    (tmp_path / "fetv_data.json").write_text('{"video_id": 1}\n')
    with pytest.raises(UserInputError, match="line 1, has no prompt"):
        read_fetv(tmp_path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("uve", "write NAME:PATH"),
        ("uv:X", "did you mean uve"),
        ("uve:", "no path"),
        ("uve:X?rate=2", "not an option"),
        ("uve:X?fps=0", "above 0"),
        ("uve:X?fps=often", "above 0"),
        ("uve:X?long_side=510", "multiple of 4"),
    ],
)
def test_what_a_command_line_may_say(text: str, says: str) -> None:
    with pytest.raises(UserInputError, match=says):
        meta_set_from_text(text)


def test_options_and_aspects_of_a_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = meta_set_from_text("fetv:data?videos=my%20films&fps=30/4&long_side=256")
    assert (result.path, result.videos) == (str(tmp_path / "data"), str(tmp_path / "my films"))
    assert (result.fps, result.long_side) == ("30/4", 256)
    assert meta_set_from_text("uve:x").fps == meta_set("uve").fps
    texts = descriptions()
    assert set(texts) == set(SETS) - {"pairs"}
    assert set(texts["videogen-rewardbench"]) == set(ASPECTS.values())
    assert len(texts["uve"]) == 15
    assert all(len(text) > 40 for own in texts.values() for text in own.values())
