"""The commands around real builds: small generated films, aspects that need no weights, evicted frames."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from slvmeval.cli.main import main
from storage_schemas.release import Release, clip_path
from storage_schemas.store import DEGRADED_CLIP, FRAMES, Store
from storage_schemas.zip_store import ZipRanges
from tasks.aspects.registry import aspect
from tasks.aspects.speeds import Speed, write_speeds
from tasks.media.ffmpeg_command import FfmpegCommand
from tests.slvmeval.cli.running import Run, lacks
from tests.slvmeval.conftest import InPlace
from tests.small_films import write_captions

ROOT = Path(__file__).parents[3]

RECIPE = """
name = "small"
long_side = 160
clips_per_pair = 2
least_duration_s = 10

[aspects.aesthetics]
operation = "ffmpeg-eq"
strength = "paper"
[aspects.technical_quality]
operation = "lanczos-down-up"
strength = "paper"
parameters = {long_side = 64}
[aspects.comprehensiveness]
operation = "remove-clips"
[aspects.temporal_flow]
operation = "reinsert-window"
"""


@dataclass(frozen=True)
class Built:
    """A store with one release, and what its build was given."""

    videos: Path
    store: Path
    recipe: Path
    summary: Path

    def words(self, word: str, *more: object) -> list[object]:
        """A command on the sources."""
        words = [word, "--store", self.store, "--sources", f"folder:{self.videos}"]
        return [*words, "--recipe", self.recipe, "small", *more]

    def build_words(self, *more: object) -> list[object]:
        quick = ("--direct", "--workers", "1", "--quiet", "--summary", self.summary)
        return self.words("build", *quick, *more)

    def build(self, *more: object) -> int:
        return main([str(word) for word in self.build_words(*more)])

    def result(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.summary.read_text(encoding="utf-8"))
        return value

    def release(self) -> Release:
        return Release.open(Store.open(self.store), "small")

    def copy(self, folder: Path) -> Built:
        """A copy of the store, with the same videos."""
        shutil.copytree(self.store, folder / "store")
        return replace(self, store=folder / "store", summary=folder / "summary.json")


def new_build(ffmpeg: str, caption: str, recipe: str, clips: dict[str, int], folder: Path) -> None:
    """Build films of moving test pictures, by name, with a caption every three seconds."""
    (folder / "videos").mkdir()
    for name, count in clips.items():
        source = f"testsrc2=size=160x90:rate=2:duration={3 * count}"
        coding = ("-c:v", "libx264", "-preset", "ultrafast", "-threads", "1", "-pix_fmt", "yuv420p")
        path = folder / "videos" / f"{name}.mp4"
        subprocess.run([ffmpeg, "-v", "error", "-f", "lavfi", "-i", source, *coding, str(path)], check=True)
        lines = [{"start_s": 3 * k, "end_s": 3 * k + 3, "caption": f"{caption} {k}."} for k in range(count)]
        write_captions(path.with_suffix(".jsonl"), lines)
    (folder / "small.toml").write_text(recipe, encoding="utf-8")
    assert built_in(folder).build() == 0


def built_in(folder: Path) -> Built:
    return Built(folder / "videos", folder / "store", folder / "small.toml", folder / "summary.json")


@pytest.fixture(scope="module")
def first(ffmpeg: str, in_place: InPlace) -> Built:
    """The release; tests that change the store use a copy of it."""
    make = partial(new_build, ffmpeg, "Coloured bars, part", RECIPE, {"bars": 12})
    return built_in(in_place("build-of-bars", make))


@pytest.fixture
def built(first: Built, tmp_path: Path) -> Built:
    return first.copy(tmp_path)


def test_build_is_summed_up_listed_and_shown(first: Built, run: Run) -> None:
    made = first.result()
    assert (made["release"], made["version"], made["new"], made["gallery"]) == ("small", 1, True, None)
    counts = {"planned": 1, "built": 1, "set_aside": 0, "reasons": {}}
    aspects = ("aesthetics", "technical_quality", "comprehensiveness", "temporal_flow")
    assert made["aspects"] == dict.fromkeys(aspects, counts)
    assert made["sources"] == {"used": 1, "damaged": [], "set_aside": []}
    store = ("--store", first.store)
    rows = {row["aspect"]: row for row in run("pairs", "small", *store, "--format", "json").json}
    assert set(rows) == set(aspects)
    shown = run("pairs", "--pair", rows["comprehensiveness"]["pair_id"][:10], *store).out
    assert not lacks(shown, "remove-clips", "low side   30 frames", "edit list")
    assert ": 1 pair\n" in run("pairs", *store, "--aspect", "aesthetics").out
    assert "0 pairs" in run("pairs", "--pair", "zzz", *store, code=1).err
    status = run("status", *store, "--format", "json").json
    assert status["run"]["status"] == "ended"
    (version,) = status["releases"][0]["versions"]
    assert (version["pairs"], version["sources"], version["recipe"]) == (4, 1, "small")
    assert status["sizes"]["pair"]["count"] == 4
    assert "small 1" in run("status", *store).out


def test_second_build_makes_nothing_and_starts_nothing(built: Built, run: Run) -> None:
    before = {path: path.stat().st_mtime_ns for path in built.store.rglob("manifest.json")}
    # without --direct, but no orchestrator is imported
    code = (
        "import sys\nfrom slvmeval.cli.main import main\ncode = main(sys.argv[1:])\n"
        "assert not {'prefect', 'distributed'} & set(sys.modules)\nsys.exit(code)\n"
    )
    words = [sys.executable, "-c", code, *map(str, built.words("build", "--summary", built.summary))]
    ran = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "unchanged" in ran.stdout
    assert (built.result()["new"], built.result()["version"]) == (False, 1)
    assert {path: path.stat().st_mtime_ns for path in built.store.rglob("manifest.json")} == before
    retry = ("build", "--retry", "--store", built.store, "--direct", "--quiet")
    assert "unchanged" in run(*retry, "small").out
    assert "no build of release 'other' was started" in run(*retry, "other", code=1).err


def test_bad_source_costs_no_other_and_shows_in_the_exit_code(built: Built, tmp_path: Path, run: Run) -> None:
    videos = tmp_path / "videos"
    shutil.copytree(built.videos, videos)
    (videos / "empty.mp4").touch()
    (videos / "empty.jsonl").write_text('{"start_s": 0, "end_s": 1, "caption": "x"}\n', encoding="utf-8")
    more = replace(built, videos=videos)
    assert "1 source was set aside" in run(*more.build_words(), code=3).out
    made = more.result()
    assert [row["reason"] for row in made["sources"]["set_aside"]] == ["empty_file"]
    assert sum(counts["built"] for counts in made["aspects"].values()) == 4
    assert "empty_file" in run("sources", "scan", videos, code=3).out


def test_plan_says_what_is_missing_and_how_long_a_gpu_takes_and_writes_nothing(
    first: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    """`aesthetics` stands for an operation that needs a GPU, with a row in the table and without."""
    known = run(*first.words("build", "--dry-run", "--format", "json")).json
    assert (known["pairs_missing"], known["frames"]["to_decode"]) == (0, 0)
    assert (known["time"]["cpu_hours"], known["time"]["wall_s"]) == (0, 0)
    done = run(*first.words("build", "--dry-run")).text
    assert "time: none" in done
    assert "next:" not in done
    fresh = replace(first, store=tmp_path / "new" / "store")
    plan = fresh.words("build", "--dry-run", "--workers", "3")
    new = run(*plan, "--format", "json").json
    assert (new["pairs_missing"], new["frames"]["to_decode"]) == (4, 36)
    counts = {"planned": 1, "missing": 1, "frames_to_degrade": 6, "not_drawn": 0, "no_pair": {}}
    assert new["aspects"]["aesthetics"] == counts
    assert new["gpu_hours"]["hours"] == 0
    assert not new["gpu_hours"]["by_aspect"]
    assert 0 < new["bytes"]["needed"] < new["bytes"]["free"]
    output = run(*plan).out
    assert not lacks(output, "36 to decode", "GPU hours: 0\n", "next: the same command without --dry-run")
    # a film of 36 s takes a second per stage and more; how long its inspection takes depends on the machine
    assert new["time"]["wall_s"] > 3
    assert new["time"]["cpu_hours"] * 3600 > 3
    assert new["time"]["workers"] == {"cpu": 3}
    said = r"time: about \d+ (seconds|minutes?) on 3 workers, 0\.\d\d CPU hours \(estimate\)"
    assert re.search(said, run(*plan).text)

    (operation,) = aspect("aesthetics").operations.values()
    monkeypatch.setattr(type(operation), "hardware", "gpu")
    without = run(*plan, "--format", "json").json
    assert without["frames"]["to_degrade_on_gpu"] == 6
    assert without["gpu_hours"]["hours"] is None
    assert without["gpu_hours"]["not_known"] == {"ffmpeg-eq": 6}
    assert "GPU hours: unknown for ffmpeg-eq (6 frames)" in run(*plan).out
    row = {"least_s": 600, "most_s": 1200, "kind": "published", "source": "a paper"}
    table = {("ffmpeg-eq", "h100"): Speed(operation="ffmpeg-eq", device="h100", **row)}
    monkeypatch.setattr("tasks.aspects.speeds.speeds", lambda: table)
    sums = {"hours": 1.5, "least": 1.0, "most": 2.0, "kind": "published"}
    sources = {"ffmpeg-eq": "published: a paper"}
    hours = {**sums, "by_aspect": {"aesthetics": sums}, "sources": sources, "not_known": {}}
    assert run(*plan, "--format", "json").json["gpu_hours"] == hours
    text = run(*plan).text
    assert "GPU hours: 1.0 to 2.0 (published): aesthetics 1.0 to 2.0 (published)" in text
    assert "figures: ffmpeg-eq published: a paper" in text
    assert not (tmp_path / "new").exists()
    # what was measured here counts first, for frames of this size
    speed = {"least_s": 1200, "most_s": 1200, "kind": "measured", "long_side": 160}
    measured = Speed(operation="ffmpeg-eq", device="H100", source="by a check", **speed)
    Store.create(fresh.store)
    write_speeds(fresh.store, "20261123T100000-n1", [measured])
    text = run(*plan).text
    assert "GPU hours: 2.0 (measured): aesthetics 2.0 (measured)" in text
    assert "figures: ffmpeg-eq measured: by a check" in text


def test_verify_continues_where_a_version_and_the_marker_are_damaged(judged_store: Path, run: Run) -> None:
    (manifest,) = judged_store.glob("releases/*/versions/1/manifest.json")
    clip = min(judged_store.glob("artifacts/degraded_clip/*/*/manifest.json"))
    for path in (manifest, clip):
        path.write_bytes(path.read_bytes().replace(b"a", b"b", 1))
    (judged_store / "store.json").write_text("{")
    words = ("verify", "--store", judged_store, "--quiet")
    assert "store.json is damaged" in run(*words, code=1).err
    said = run(*words, "--deep", code=1).out.replace("\n", "")
    checked = "only the files of the store were checked"
    for what in ("store.json is damaged", str(manifest), str(clip), checked):
        assert what in said
    assert len(run(*words, "--deep", "--format", "json", code=1).json["problems"]) == 3


def test_verify_finds_repairs_and_the_build_makes_the_same_again(built: Built, run: Run) -> None:
    words = ("verify", "small", "--store", built.store, "--quiet")
    assert "4 pairs read frame by frame, all good" in run(*words, "--deep").out
    before = built.release()
    store = Store.open(built.store)
    victim = next(store.manifests(DEGRADED_CLIP))
    path = clip_path(store, victim.id)
    begin, size = ZipRanges(path).ranges["planes/c/0/0/0"]
    damaged = bytearray(path.read_bytes())
    damaged[begin + size // 3] ^= 0xFF
    path.write_bytes(damaged)
    assert victim.content["aspect"] in run(*words, code=1).out
    assert f"removed degraded_clip {victim.id[:12]}" in run(*words, "--repair", code=1).out
    assert built.build() == 0
    # so is a version whose manifest is damaged
    manifest = before.path / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b"recipe", b"recipf"))
    assert f"{manifest} does not match its own checksum" in run(*words, "--deep", code=1).out
    assert "removed version 1 of release small" in run(*words, "--deep", "--repair", code=1).err
    assert built.build() == 0
    run(*words, "--deep")
    assert built.release().manifest.content_checksum == before.manifest.content_checksum


def test_evicted_frames_come_back_when_they_are_wanted(built: Built, tmp_path: Path, run: Run) -> None:
    run("gc", "--store", built.store, "frames", "encoded", "unreferenced")
    assert not list(Store.open(built.store).manifests(FRAMES))
    words = ["materialise", "small", "--store", built.store, "--aspect", "temporal_flow"]
    words += ["--out", tmp_path / "mp4", "--quiet", "--side"]
    run(*words, "low")
    assert [path.name for path in (tmp_path / "mp4").rglob("*.mp4")] == ["low.mp4"]
    run("verify", "--store", built.store, "--quiet")
    run(*words, "low", "--pair", "zzz", code=1)
    run(*words, "left", code=2)


def test_ffmpeg_command_checks_the_frames_and_encodes_pairs(
    built: Built, ffmpeg: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    store = ("small", "--store", built.store, "--quiet")
    verify = ("verify", *store, "--against-ffmpeg", "5", "--set", "tolerance=2")
    encode = ("materialise", *store, "--aspect", "temporal_flow", "--out", tmp_path / "mp4", "--encoder")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no ffmpeg on PATH" in run(*verify, code=1).err
    (tmp_path / "ffmpeg").symlink_to(ffmpeg)
    # the checks without ffmpeg have tests of their own
    monkeypatch.setattr("slvmeval.cli.store.release_check.check_release", lambda *_: [])
    (source,) = run(*verify, "--format", "json").json["ffmpeg"]["sources"]
    assert source["frames"] == built.release().sources()[0].frame_count
    assert (source["differences"], source["problem"]) == ([], "")
    assert "1 pair in" in run(*encode, "libx264?preset=ultrafast").out
    assert sorted(path.name for path in tmp_path.rglob("*.mp4")) == ["high.mp4", "low.mp4"]
    frames = FfmpegCommand.frames
    monkeypatch.setattr(FfmpegCommand, "frames", lambda *asked: ((k, 255 - one) for k, one in frames(*asked)))
    output = run(*verify, code=1).out
    assert "reads 0 of 1 source alike" in output
    assert "frames that differ" in output
    assert f"{source['frames'] - 10} more frames differ than shown" in output


def test_gallery_of_the_same_version_is_not_written_again(built: Built, tmp_path: Path, run: Run) -> None:
    gallery = tmp_path / "gallery"

    def build() -> dict[Path, int]:
        assert built.build("--gallery", gallery) == 0
        return {path: path.stat().st_mtime_ns for path in gallery.rglob("*") if path.is_file()}

    before = build()
    assert built.result()["gallery"] == str(gallery / "index.html")
    assert build() == before
    (gallery / "shows.json").unlink()
    run("gallery", "small", "--store", built.store, "--out", gallery, "--quiet")
    assert (gallery / "index.html").stat().st_mtime_ns > before[gallery / "index.html"]


def test_pinned_recipe_makes_the_same_pairs(built: Built, tmp_path: Path, run: Run) -> None:
    pinned = tmp_path / "pinned.json"
    words = ("export", "small", "--store", built.store, "--quiet", "--out")
    run(*words, pinned, "--recipe-only")
    again = Built(built.videos, tmp_path / "again", pinned, tmp_path / "again.json")
    assert again.build() == 0
    assert again.result()["content_checksum"] == built.release().manifest.content_checksum
    assert "cannot be changed" in run(*again.build_words("--set", "seed=1"), code=2).err
    # the film has no licence line, so it is exported only for internal use
    assert "0 pairs" in run(*words, tmp_path / "public", code=3).out
    run(*words, tmp_path / "own", "--private")
    assert len(list((tmp_path / "own").rglob("*.mp4"))) == 5


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_misspelled_folder_leaves_no_store_behind(tmp_path: Path, run: Run, more: tuple[str, ...]) -> None:
    told = run("build", "-s", tmp_path / "vidoes", "--store", tmp_path / "store", "--direct", *more, code=1)
    # although the recipe's weights are missing, too
    assert "vidoes does not exist" in told.err
    assert not list(tmp_path.iterdir())


# -- evicted frames --------------------------------------------------------------------------------------

#: Frozen clips repeat frames of the source; the other aspects keep what they degraded.
MORE = '[aspects.dynamics_degree]\noperation = "middle-frame"\n'
#: dynamics_degree needs movement.
CAPTION = "A red ball rolls quickly across the floor, part"


@pytest.fixture(scope="module")
def two(ffmpeg: str, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """A release of two films, `kept` and `lost`."""
    folder = tmp_path_factory.mktemp("two")
    new_build(ffmpeg, CAPTION, RECIPE + MORE, {"kept": 12, "lost": 13}, folder)
    return built_in(folder)


@pytest.fixture
def evicted(two: Built, tmp_path: Path, run: Run) -> Iterator[Built]:
    """A copy of the store without frames; the second film is moved to tmp_path/lost.mp4."""
    built = two.copy(tmp_path)
    run("gc", "--store", built.store, "frames")
    content = (two.videos / "lost.mp4").read_bytes()
    (two.videos / "lost.mp4").rename(tmp_path / "lost.mp4")
    yield built
    (two.videos / "lost.mp4").write_bytes(content)


def quietly(built: Built, command: str, *more: object) -> list[object]:
    return [command, "small", "--store", built.store, "--quiet", *more]


def with_frames(built: Built) -> set[str]:
    release = built.release()
    return {row.title for row in release.sources() if release.store.has(FRAMES, row.frames_id)}


def test_the_gallery_continues_without_the_videos_of_a_source_that_is_gone(
    evicted: Built, tmp_path: Path, run: Run
) -> None:
    out = tmp_path / "gallery"
    # nor does it fail a build that ends with it
    assert evicted.build("--gallery", tmp_path / "built") == 0
    assert Path(evicted.result()["gallery"]).is_file()
    run("gc", "--store", evicted.store, "frames", "encoded")
    shown = run(*quietly(evicted, "gallery", "--out", out)).err
    assert "shown without its videos: the frames of lost were evicted" in shown
    assert len(list((out / "media").iterdir())) == 1
    pages = [path.read_text(encoding="utf-8") for path in (out / "sources").iterdir()]
    assert sorted("There are no videos" in page for page in pages) == [False, True]
    # it does not count as the whole gallery: once the video is back, it is written again
    (tmp_path / "lost.mp4").rename(evicted.videos / "lost.mp4")
    run(*quietly(evicted, "gallery", "--out", out))
    assert len(list((out / "media").iterdir())) == 2
    # frames do not come back where nothing is made of them
    run("gc", "--store", evicted.store, "frames")
    (evicted.videos / "lost.mp4").unlink()
    (out / "shows.json").unlink()
    # videos and images exist, as does the encoded video from which most of a pair is copied
    still = ("--aspect", "dynamics_degree", "--out", tmp_path / "still")
    for more in (
        quietly(evicted, "gallery", "--out", out),
        quietly(evicted, "materialise", "--aspect", "aesthetics", "--out", tmp_path / "mp4"),
        quietly(evicted, "materialise", "--side", "high", *still),
    ):
        assert not run(*more).err
    assert len(list((out / "media").iterdir())) == 2
    assert with_frames(evicted) == set()
    run(*quietly(evicted, "materialise", *still), code=3)
    assert with_frames(evicted) == {"kept"}
    for page in (out / "sources").iterdir():
        assert "There are no videos" not in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(("content", "message"), [(None, "is no longer at"), (b"no video", "lost.mp4")])
def test_verify_reports_what_cannot_be_read_and_repair_goes_to_the_end(
    content: bytes | None, message: str, evicted: Built, run: Run
) -> None:
    if content is not None:
        (evicted.videos / "lost.mp4").write_bytes(content)
    ran = run(*quietly(evicted, "verify"), code=1)
    for said in ("frames of lost: ", message, "1 problem"):
        assert said in ran.out
    assert not ran.err
    run("gc", "--store", evicted.store, "frames")
    ran = run(*quietly(evicted, "verify", "--repair"), code=1)
    assert "not recreated: frames of lost" in ran.out
    assert not ran.err
    assert with_frames(evicted) == {"kept"}


def test_what_is_passed_on_leaves_out_the_pairs_of_a_source_that_is_gone(
    evicted: Built, tmp_path: Path, run: Run
) -> None:
    videos, out = tmp_path / "mp4", tmp_path / "dataset"
    ran = run(*quietly(evicted, "materialise", "--out", videos), code=3)
    assert not lacks(ran.out, "5 pairs in", "pairs left out: 5", "the frames of lost were evicted")
    assert not ran.err
    assert len(list(videos.rglob("*.mp4"))) == 10
    run("gc", "--store", evicted.store, "frames", "encoded")
    assert "pairs left out: 5" in run(*quietly(evicted, "export", "--out", out, "--private"), code=3).out
    rows = pq.read_table(out / "data" / "pairs.parquet").to_pylist()
    assert [row["title"] for row in pq.read_table(out / "data" / "sources.parquet").to_pylist()] == ["kept"]
    assert all((out / row["low_video"]).is_file() for row in rows)
    assert len(rows) == 5
    assert len(json.loads((out / "recipe.json").read_text())["pins"]) == 10
