"""The proxy study on a small FETV: pairs as the paper has them, two rankings, one coefficient."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from slvmeval.cli.main import main
from storage_schemas.errors import SetAside, UserInputError
from storage_schemas.frames import ColorSpec
from storage_schemas.judgements import Judgement
from tasks.aspects.aesthetics import eq_contrast_table
from tasks.extras.meta_sets.proxy_clips import JoinedSide
from tasks.extras.meta_sets.proxy_page import correlation_text, proxy_files, proxy_table
from tasks.extras.meta_sets.proxy_result import ProxyResult, ProxyRow, proxy_result
from tasks.extras.meta_sets.proxy_study import ProxyPairs
from tasks.media.planes import split_planes
from tasks.statistics.cells import cell_of
from tasks.statistics.correlations import Correlation, spearman
from tasks.statistics.trials import Trial, TrialPair
from tests.planted_evaluators import PlantedPackage
from tests.tasks.report.latex_source import environments
from tests.tasks.scoring.judges.short_films import fetv_folder
from tests.tasks.scoring.sides import FrameList, flat, noise

Capture = pytest.CaptureFixture[str]
SHORTER = """
from slvmeval.evaluators import PointwiseScorer, Score

class Shorter(PointwiseScorer):
    name = "shorter"
    def settings(self): return {}
    def check(self): pass
    def score(self, prompt, video, aspect): return Score(-len(video))
"""


@pytest.fixture(scope="module")
def fetv(ffmpeg: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fetv_folder(ffmpeg, tmp_path_factory.mktemp("fetv"))


def study(fetv: Path, **fields: object) -> ProxyPairs:
    return ProxyPairs.model_validate({"path": str(fetv), "long_side": 64, **fields})


def degraded(pairs: ProxyPairs) -> list[str]:
    return [id_ for id_, pair in pairs.draw().pairs.items() if pair.setting == "degraded"]


def test_joined_clips_share_a_canvas() -> None:
    wide = FrameList([noise(1, 32, 8), noise(2, 32, 8)], 32, 8, "wide")
    high = FrameList([noise(3, 16, 16)], 16, 16, "high")
    joined = JoinedSide([wide, high])
    assert (len(joined), joined.width, joined.height) == (3, 32, 16)
    planes = joined.planes([2, 0, 1])
    views, given = split_planes(planes), split_planes(wide.planes([0, 1]))
    assert (views.y[1:, 4:12] == given.y).all()
    assert (views.u[1:, 2:6] == given.u).all()
    assert (views.y[1:, :4] == 16).all()
    assert (views.v[1:, 6:] == 128).all()
    assert (views.y[0, :, 8:24] == split_planes(high.planes([0])).y[0]).all()
    # what is shown does not change the canvas, nor the identity of a frame
    alone = JoinedSide([wide, high], [1])
    assert len(alone) == 1
    assert alone.frame_ids([0]) == joined.frame_ids([2])
    assert (alone.planes([0]) == joined.planes([2])).all()
    assert alone.family == joined.family
    assert joined.planes([]).shape == (0, 24, 32)
    with pytest.raises(IndexError):
        joined.planes([3])
    with pytest.raises(ValueError, match="one rate"):
        JoinedSide([])


def test_a_clip_of_another_range_is_converted() -> None:
    first, second = FrameList([flat(100)]), FrameList([flat(100)])
    second.color = ColorSpec("bt709", True)  # type: ignore[misc]
    # full range 100 is 100 · 219/255 + 16
    luma = split_planes(JoinedSide([first, second]).planes([0, 1])).y
    assert [set(frame.ravel()) for frame in luma] == [{100}, {102}]


def test_the_pairs_of_both_settings(fetv: Path) -> None:
    drawn = study(fetv).draw()
    degraded = [pair for pair in drawn.pairs.values() if pair.setting == "degraded"]
    generated = [pair for pair in drawn.pairs.values() if pair.setting == "generated"]
    # five usable prompts make two couples; the sixth was never filmed
    assert len(degraded) == 2
    assert drawn.models == ("cogvideo", "damo-text2video")
    assert drawn.left_out["not_scored"] == 1
    assert drawn.left_out["prompt_without_partner"] == 1
    used = [number for pair in degraded for number in pair.couple]
    assert len(set(used)) == 4
    # people liked all real videos more than cogvideo's; the other model's only in prompt 4
    wanted = {(pair.couple, "cogvideo") for pair in degraded}
    wanted |= {(pair.couple, "damo-text2video") for pair in degraded if "4" in pair.couple}
    assert {(pair.couple, pair.model) for pair in generated} == wanted
    assert drawn.left_out["equal_human_scores"] == 4 - len(wanted)
    for pair in generated:
        assert [path.parent.name for path in pair.high] == ["real_videos"] * 2
        assert pair.prompt == "\n".join(f"a thing number {number}" for number in pair.couple)
    other = study(fetv, seed=1).draw()
    assert {pair.couple for pair in other.pairs.values()} != {pair.couple for pair in degraded}
    fewer = study(fetv, couples=1).draw()
    assert set(fewer.pairs) < set(drawn.pairs)


def test_a_removed_clip_and_a_joined_generated_video(fetv: Path) -> None:
    pairs = study(fetv)
    for id_, result in pairs.draw().pairs.items():
        pair = pairs.open(id_)
        assert len(pair.high) == 8
        assert (pair.high.width, pair.high.height) == (64, 36)
        if result.setting == "generated":
            assert len(pair.low) == 4
            continue
        (gone,) = pair.details["clips"]
        stays = slice(4, 8) if gone == 0 else slice(0, 4)
        assert (pair.low.planes(range(4)) == pair.high.planes(range(8)[stays])).all()
        assert (pair.low.width, pair.low.height) == (64, 36)


def test_one_clip_is_degraded_by_an_operation_on_pixels(fetv: Path) -> None:
    pairs = study(fetv, aspect="aesthetics")
    again = study(fetv, aspect="aesthetics", strength="weak")
    ids = degraded(pairs)
    assert not set(ids) & set(again.draw().pairs)
    for id_ in ids:
        pair = pairs.open(id_)
        (at,) = pair.details["clips"]
        high, low = pair.high.planes(range(8)), pair.low.planes(range(8))
        changed = range(4 * at, 4 * at + 4)
        for place in range(8):
            luma, seen = split_planes(high[place]).y, split_planes(low[place]).y
            assert (seen == (eq_contrast_table(-0.8)[luma] if place in changed else luma)).all()
            same = pair.high.frame_ids([place]) == pair.low.frame_ids([place])
            assert same == (place not in changed)
        assert (pairs.open(id_).low.planes(range(8)) == low).all(), "the same draw, the same pixels"
    styled = study(fetv, aspect="appearance_style")
    for id_ in degraded(styled):
        assert np.abs(styled.open(id_).low.planes([0, 7]).astype(int)).any()


def test_what_cannot_be_studied_is_reported(fetv: Path, tmp_path: Path) -> None:
    wrong: list[tuple[dict[str, object], str]] = [
        ({"aspect": "color"}, "needs a model or a caption's words"),
        ({"score": "beauty"}, "no score 'beauty'"),
        ({"models": ("sora",)}, "no model 'sora'"),
        ({"path": str(tmp_path / "gone")}, "no folder"),
    ]
    for fields, said in wrong:
        with pytest.raises(UserInputError, match=said):
            study(fetv, **fields).facts()
    # moved clips of two: the only other order leaves no clip at its place, or none is possible
    flow = study(fetv, aspect="temporal_flow")
    for id_ in degraded(flow):
        try:
            pair = flow.open(id_)
        except SetAside as reason:
            assert reason.reason.value in ("no_arrangement", "too_few_clips")
        else:
            assert (pair.low.planes(range(4)) == pair.high.planes(range(4, 8))).all()


@pytest.mark.slow
def test_the_study_in_one_command(
    fetv: Path, tmp_path: Path, planted: PlantedPackage, capsys: Capture
) -> None:
    (planted.folder / "planted_shorter.py").write_text(SHORTER)
    info = planted.folder / "planted_shorter-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: planted-shorter\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[slvmeval.evaluators]\nshorter = planted_shorter:Shorter\n")
    words = ["meta-sets", "proxy-study", str(fetv), "-e", "duration", "--generator", "cogvideo"]
    words += ["--store", str(tmp_path / "store"), "--direct", "--workers", "1", "--quiet"]
    more = ["-e", "planted?mood=first", "-e", "shorter", "--out", str(tmp_path / "out")]
    assert main([*words, *more]) == 0
    shown = capsys.readouterr().out
    assert "Spearman's ρ of the two rankings: 1.000 (p = 0, n = 3 evaluators)" in shown
    # two couples, each with a generated and a degraded pair, asked in both orders
    assert planted.asked("first") == 8
    written = json.loads((tmp_path / "out/proxy-study.json").read_text())
    result = {row["evaluator"]: row for row in written["evaluators"]}
    # the real videos are longer than cogvideo's, and longer than with a clip removed
    names = ("generated_accuracy", "degraded_accuracy", "degraded_rank")
    assert [[result[one][name] for name in names] for one in ("duration", "first", "shorter")] == [
        [1.0, 1.0, 1.0],
        [0.5, 0.5, 2.0],
        [0.0, 0.0, 3.0],
    ]
    assert result["duration"]["generated_pairs"] == 2
    assert written["spearman"] == {"rho": 1.0, "p": 0.0, "n": 3}
    lines = (tmp_path / "out/proxy-study.csv").read_text().splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("evaluator,settings,generated_rank")
    page = (tmp_path / "out/proxy-study.html").read_text(encoding="utf-8")
    assert "Spearman&#39;s ρ of the two rankings: 1.000" in page
    assert "<svg" in page
    assert {path.suffix for path in (tmp_path / "out").iterdir()} >= {".svg", ".pdf", ".tex", ".md"}
    # again: nothing is asked; more evaluators: only those; a single one: no ranking to compare
    assert main([*words, *more[:4], "-e", "coin", "--format", "json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert planted.asked("first") == 8
    assert again["spearman"]["n"] == 4
    assert main(words) == 0
    assert "not defined over n = 1" in capsys.readouterr().out
    # where the aspect leaves the length alone, length says nothing of the degraded videos
    assert main([*words, "-e", "contrast", "--aspect", "aesthetics", "--format", "json"]) == 0
    result = {row["evaluator"]: row for row in json.loads(capsys.readouterr().out)["evaluators"]}
    assert (result["duration"]["degraded_accuracy"], result["duration"]["degraded_ties"]) == (0.5, 2)
    # a clip of compressed luma has less contrast
    assert (result["contrast"]["degraded_accuracy"], result["contrast"]["degraded_rank"]) == (1.0, 1.0)


def test_who_answers_half_of_a_setting_has_no_rank_there(fetv: Path) -> None:
    pairs = study(fetv)
    drawn = pairs.draw()
    facts = {one.pair_id: one for one in drawn.facts}
    rows = [
        Judgement(
            key=f"{name}{id_}",
            evaluator=name,
            settings="",
            pair_id=id_,
            source_id=facts[id_].source_id,
            aspect=facts[id_].aspect,
            order="apart",
            preferred="high",
        )
        for id_, one in drawn.pairs.items()
        for name in ("all", "some")
        if name == "all" or one.setting == "degraded"
    ]
    degraded_rows = [row for row in rows if drawn.pairs[row.pair_id].setting == "degraded"]
    rows.remove(next(row for row in degraded_rows if row.evaluator == "some"))
    result = {row.evaluator: row for row in proxy_result(pairs, rows).rows}
    assert (result["some"].degraded.accuracy, result["some"].degraded_rank) == (1.0, None)
    assert result["some"].degraded.not_asked == 1
    assert (result["all"].degraded_rank, result["all"].generated_rank) == (1.0, 1.0)


HOSTILE = "<b>x</b> & $y_1$"


#: Right answers of ten in the settings generated and degraded.
RIGHT = {"good": (9, 10), HOSTILE: (7, 6), "fair": (6, 8), "coin": (5, 5)}


def made_up(right: dict[str, tuple[int, int]], ranked: bool = True) -> ProxyResult:
    def cell(name: str, count: int):  # type: ignore[no-untyped-def]
        pairs = [TrialPair(f"p{place}", f"s{place}", "comprehensiveness", 8.0) for place in range(10)]
        answers = ["high" if place < count else "low" for place in range(10)]
        return cell_of(
            [Trial(name, "", pair, "apart", 0, answer) for pair, answer in zip(pairs, answers, strict=True)]  # type: ignore[arg-type]
        )

    ranks = [
        {name: float(place) for place, name in enumerate(sorted(right, key=lambda one: -right[one][side]), 1)}
        for side in (0, 1)
    ]
    rows = tuple(
        ProxyRow(
            name,
            "",
            cell(name, first),
            cell(name, second),
            *(rank[name] if ranked else None for rank in ranks),
        )
        for name, (first, second) in right.items()
    )
    values = list(right.values())
    correlation = spearman([one for one, _ in values], [other for _, other in values])
    return ProxyResult("FETV: alignment & <comprehensiveness>", rows, correlation)


def test_the_page_has_rho_the_table_and_the_scatter_with_the_best_at_the_top_right() -> None:
    files = proxy_files(made_up(RIGHT))
    assert sorted(files) == [f"proxy-study.{form}" for form in ("html", "md", "pdf", "svg", "tex")]
    page = files["proxy-study.html"].decode()
    assert "<dd>0.8000</dd>" in page
    assert "0.800 (p = 0.2, n = 4 evaluators)" in page
    assert "<b>x" not in page
    assert "&lt;b&gt;x&lt;/b&gt; &amp; $y_1$" in page
    assert "<comprehensiveness>" not in page
    drawing = page[page.index("<svg") : page.index("</svg>")]
    for name in ("good", "fair", "coin"):
        assert re.search(rf">{name}</text>", drawing)
    assert len(re.findall(r"<use", drawing)) >= len(RIGHT)
    assert environments(files["proxy-study.tex"].decode()) == ["longtable"]
    svg = files["proxy-study.svg"].decode()
    points = re.findall(r'<use xlink:href="#m\w+" x="([\d.]+)" y="([\d.]+)" style="fill: #1f5fae', svg)
    # in the order of the rows: good is first in both and so at the top right, coin last in both
    (best_x, best_y), *_, (last_x, last_y) = [(float(x), float(y)) for x, y in points]
    assert len(points) == len(RIGHT)
    assert best_x > last_x
    assert best_y < last_y
    assert files == proxy_files(made_up(RIGHT)), "the same bytes again"


def test_evaluators_of_equal_ranks_keep_their_names() -> None:
    held = made_up({"one": (5, 5), "other": (5, 5)})
    rows = tuple(ProxyRow(row.evaluator, "", row.generated, row.degraded, 1.5, 1.5) for row in held.rows)
    page = proxy_files(ProxyResult("t", rows, Correlation(2, None, None)))["proxy-study.html"].decode()
    assert ">one</text>" in page
    assert ">other</text>" in page
    assert "not defined over n = 2 evaluators" in page


def test_without_ranks_the_page_says_so() -> None:
    files = proxy_files(made_up(RIGHT, ranked=False))
    assert "proxy-study.svg" not in files
    assert b"No evaluator has a rank in both settings." in files["proxy-study.html"]
    nothing = ProxyResult("t", (), Correlation(0, None, None))
    assert proxy_table(nothing).empty == "No evaluator answered."
    assert b"No evaluator answered." in proxy_files(nothing)["proxy-study.html"]
    assert correlation_text(nothing).startswith("Spearman's ρ is not defined over n = 0 evaluators")
