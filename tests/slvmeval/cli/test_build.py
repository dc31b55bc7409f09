"""The commands around one real build: a small generated film, four aspects that need no weights."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slvmeval.cli.main import main
from storage_schemas.release import Release, clip_path
from storage_schemas.store import DEGRADED_CLIP, FRAMES, Store
from storage_schemas.zip_store import ZipRanges
from tasks.aspects.registry import aspect
from tasks.aspects.speeds import Speed, write_speeds
from tasks.media.ffmpeg_command import FfmpegCommand

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
    """A store with one release, and the build that made it."""

    videos: Path
    store: Path
    recipe: Path
    summary: Path
    exit_code: int

    def command(self, word: str, *more: str) -> list[str]:
        words = [word, "--store", str(self.store), "--sources", f"folder:{self.videos}"]
        return [*words, "--recipe", str(self.recipe), "--release", "small", *more]

    def build(self, *more: str) -> int:
        quick = ("--direct", "--workers", "1", "--quiet", "--summary", str(self.summary))
        return main(self.command("build", *quick, *more))

    def result(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.summary.read_text(encoding="utf-8"))
        return value


def film(ffmpeg: str, path: Path, clips: int = 12, each_s: int = 3) -> None:
    """Write a film of moving test pictures with one caption every few seconds."""
    source = f"testsrc2=size=160x90:rate=10:duration={clips * each_s}"
    words = [ffmpeg, "-v", "error", "-f", "lavfi", "-i", source, "-c:v", "libx264", "-threads", "1"]
    subprocess.run([*words, "-pix_fmt", "yuv420p", str(path)], check=True)
    lines = [
        {"start_s": k * each_s, "end_s": (k + 1) * each_s, "caption": f"Coloured bars, part {k + 1}."}
        for k in range(clips)
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    path.with_suffix(".jsonl").write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def first(ffmpeg: str, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The release; tests that change the store use a copy of it."""
    folder = tmp_path_factory.mktemp("build")
    videos = folder / "videos"
    videos.mkdir()
    film(ffmpeg, videos / "bars.mp4")
    recipe = folder / "small.toml"
    recipe.write_text(RECIPE, encoding="utf-8")
    built = Built(videos, folder / "store", recipe, folder / "summary.json", 0)
    return Built(videos, built.store, recipe, built.summary, built.build())


@pytest.fixture
def built(first: Built, tmp_path: Path) -> Built:
    shutil.copytree(first.store, tmp_path / "store")
    return Built(first.videos, tmp_path / "store", first.recipe, tmp_path / "summary.json", 0)


def release(built: Built) -> Release:
    return Release.open(Store.open(built.store), "small")


def test_everything_is_built_and_summed_up(first: Built) -> None:
    assert first.exit_code == 0
    made = first.result()
    assert (made["release"], made["version"], made["new"], made["gallery"]) == ("small", 1, True, None)
    assert set(made["aspects"]) == {
        "aesthetics",
        "technical_quality",
        "comprehensiveness",
        "temporal_flow",
    }
    for counts in made["aspects"].values():
        assert counts == {"planned": 1, "built": 1, "set_aside": 0, "reasons": {}}
    assert made["sources"] == {"used": 1, "damaged": [], "set_aside": []}


def test_a_second_build_makes_nothing_and_starts_nothing(built: Built) -> None:
    before = sorted(built.store.rglob("manifest.json"))
    stamps = [path.stat().st_mtime_ns for path in before]
    # without --direct, but no orchestrator is imported
    code = (
        "import sys\nfrom slvmeval.cli.main import main\ncode = main(sys.argv[1:])\n"
        "assert not {'prefect', 'distributed'} & set(sys.modules)\nsys.exit(code)\n"
    )
    words = [sys.executable, "-c", code, *built.command("build", "--summary", str(built.summary))]
    ran = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "unchanged" in ran.stdout
    assert (built.result()["new"], built.result()["version"]) == (False, 1)
    assert sorted(built.store.rglob("manifest.json")) == before
    assert [path.stat().st_mtime_ns for path in before] == stamps


def test_a_bad_source_costs_no_other_and_tells_in_the_exit_code(
    built: Built, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    videos = tmp_path / "videos"
    shutil.copytree(built.videos, videos)
    (videos / "empty.mp4").touch()
    (videos / "empty.jsonl").write_text('{"start_s": 0, "end_s": 1, "caption": "x"}\n', encoding="utf-8")
    more = Built(videos, built.store, built.recipe, built.summary, 0)
    assert more.build() == 3
    made = more.result()
    assert [row["reason"] for row in made["sources"]["set_aside"]] == ["empty_file"]
    assert sum(counts["built"] for counts in made["aspects"].values()) == 4
    assert "1 source was set aside" in capsys.readouterr().out
    assert main(["sources", "scan", str(videos)]) == 3
    assert "empty_file" in capsys.readouterr().out


def test_plan_says_what_is_missing_and_writes_nothing(
    first: Built, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(first.command("plan", "--json")) == 0
    known = json.loads(capsys.readouterr().out)
    assert known["pairs_missing"] == 0
    assert known["frames"]["to_decode"] == 0
    fresh = Built(first.videos, tmp_path / "new" / "store", first.recipe, first.summary, 0)
    assert main(fresh.command("plan", "--json")) == 0
    new = json.loads(capsys.readouterr().out)
    assert new["pairs_missing"] == 4
    assert new["frames"]["to_decode"] == 36
    assert new["aspects"]["aesthetics"] == {
        "planned": 1,
        "missing": 1,
        "frames_to_degrade": 6,
        "not_drawn": 0,
        "no_pair": {},
    }
    assert new["gpu_hours"]["hours"] == 0
    assert not new["gpu_hours"]["by_aspect"]
    assert 0 < new["bytes"]["needed"] < new["bytes"]["free"]
    assert not (tmp_path / "new").exists()
    assert main(fresh.command("plan")) == 0
    output = capsys.readouterr().out
    assert "36 to decode" in output
    assert "GPU hours: 0\n" in output


def test_plan_says_the_gpu_hours_and_how_sure_they_are(
    first: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`aesthetics` stands for an operation that needs a GPU, with a row in the table and without."""
    (operation,) = aspect("aesthetics").operations.values()
    monkeypatch.setattr(type(operation), "pool", "h100")
    fresh = Built(first.videos, tmp_path / "new" / "store", first.recipe, first.summary, 0)
    assert main(fresh.command("plan", "--json")) == 0
    output = json.loads(capsys.readouterr().out)
    assert output["frames"]["to_degrade_on_gpu"] == 6
    assert output["gpu_hours"]["hours"] is None
    assert output["gpu_hours"]["not_known"] == {"ffmpeg-eq": 6}
    assert main(fresh.command("plan")) == 0
    assert "GPU hours: unknown for ffmpeg-eq (6 frames)" in capsys.readouterr().out
    row = {"least_s": 600, "most_s": 1200, "kind": "published", "source": "a paper"}
    table = {("ffmpeg-eq", "h100"): Speed(operation="ffmpeg-eq", device="h100", **row)}
    monkeypatch.setattr("tasks.aspects.speeds.speeds", lambda: table)
    assert main(fresh.command("plan", "--json")) == 0
    known = json.loads(capsys.readouterr().out)["gpu_hours"]
    sums = {"hours": 1.5, "least": 1.0, "most": 2.0, "kind": "published"}
    sources = {"ffmpeg-eq": "published: a paper"}
    assert known == {**sums, "by_aspect": {"aesthetics": sums}, "sources": sources, "not_known": {}}
    assert main(fresh.command("plan")) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "GPU hours: 1.0 to 2.0 (published): aesthetics 1.0 to 2.0 (published)" in text
    assert "figures: ffmpeg-eq published: a paper" in text
    # what was measured here counts first, for frames of this size
    speed = {"least_s": 1200, "most_s": 1200, "kind": "measured", "long_side": 160}
    measured = Speed(operation="ffmpeg-eq", device="H100", source="by a check", **speed)
    Store.create(fresh.store)
    write_speeds(fresh.store, "20261123T100000-n1", [measured])
    assert main(fresh.command("plan")) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "GPU hours: 2.0 (measured): aesthetics 2.0 (measured)" in text
    assert "figures: ffmpeg-eq measured: by a check" in text


def test_pairs_are_listed_and_shown(first: Built, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--store", str(first.store)]
    assert main(["pairs", "list", "small", *words, "--json"]) == 0
    rows = {row["aspect"]: row for row in json.loads(capsys.readouterr().out)}
    assert len(rows) == 4
    assert main(["pairs", "show", rows["comprehensiveness"]["pair_id"][:10], *words]) == 0
    output = capsys.readouterr().out
    assert "remove-clips" in output
    assert "low side   30 frames" in output
    assert "edit list" in output
    assert main(["pairs", "list", *words, "--aspect", "aesthetics"]) == 0
    assert "1 pairs" in capsys.readouterr().out
    assert main(["pairs", "show", "zzz", *words]) == 1
    assert "0 pairs" in capsys.readouterr().err


def test_status_shows_the_release(first: Built, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--store", str(first.store), "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert output["run"]["status"] == "ended"
    (version,) = output["releases"][0]["versions"]
    assert (version["pairs"], version["sources"], version["recipe"]) == (4, 1, "small")
    assert output["sizes"]["pair"]["count"] == 4
    assert main(["status", "--store", str(first.store)]) == 0
    assert "small 1" in capsys.readouterr().out


def test_verify_goes_on_where_the_manifest_of_a_version_and_the_marker_are_damaged(
    judged_store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (manifest,) = judged_store.glob("releases/*/versions/1/manifest.json")
    clip = min(judged_store.glob("artifacts/degraded_clip/*/*/manifest.json"))
    for path in (manifest, clip):
        path.write_bytes(path.read_bytes().replace(b"a", b"b", 1))
    (judged_store / "store.json").write_text("{")
    words = ["verify", "--store", str(judged_store), "--quiet"]
    assert main(words) == 1
    assert "store.json is damaged" in capsys.readouterr().err
    assert main([*words, "--deep"]) == 1
    said = capsys.readouterr().out.replace("\n", "")
    for what in (
        "store.json is damaged",
        str(manifest),
        str(clip),
        "only the files of the store were checked",
    ):
        assert what in said
    assert main([*words, "--deep", "--json"]) == 1
    assert len(json.loads(capsys.readouterr().out)["problems"]) == 3


def test_verify_finds_repairs_and_the_build_makes_the_same_again(
    built: Built, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["verify", "small", "--store", str(built.store), "--quiet"]
    assert main([*words, "--deep"]) == 0
    assert "4 pairs read frame by frame, all good" in capsys.readouterr().out
    checksum = release(built).manifest.content_checksum
    store = Store.open(built.store)
    victim = next(store.manifests(DEGRADED_CLIP))
    path = clip_path(store, victim.id)
    begin, size = ZipRanges(path).places["planes/c/0/0/0"]
    damaged = bytearray(path.read_bytes())
    damaged[begin + size // 3] ^= 0xFF
    path.write_bytes(damaged)
    assert main(words) == 1
    assert victim.content["aspect"] in capsys.readouterr().out
    assert main([*words, "--repair"]) == 1
    assert f"removed degraded_clip {victim.id[:12]}" in capsys.readouterr().out
    assert built.build() == 0
    assert main([*words, "--deep"]) == 0
    assert release(built).manifest.content_checksum == checksum


def test_a_version_whose_manifest_is_damaged_is_removed_and_written_again(
    built: Built, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["verify", "small", "--store", str(built.store), "--quiet", "--deep"]
    before = release(built)
    manifest = before.path / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b"recipe", b"recipf"))
    assert main(words) == 1
    assert f"{manifest} does not match its own checksum" in capsys.readouterr().out
    assert main([*words, "--repair"]) == 1
    assert "removed version 1 of release small" in capsys.readouterr().err
    assert built.build() == 0
    assert main(words) == 0
    assert release(built).manifest.content_checksum == before.manifest.content_checksum


def test_evicted_frames_come_back_when_they_are_wanted(
    built: Built, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store.open(built.store)
    assert main(["gc", "--store", str(built.store), "--frames", "--encoded", "--unreferenced"]) == 0
    assert not list(store.manifests(FRAMES))
    out = tmp_path / "mp4"
    words = [
        "materialise",
        "small",
        "--store",
        str(built.store),
        "--aspect",
        "temporal_flow",
        "--side",
        "low",
    ]
    assert main([*words, "--out", str(out), "--quiet"]) == 0
    assert [path.name for path in out.rglob("*.mp4")] == ["low.mp4"]
    assert main(["verify", "--store", str(built.store), "--quiet"]) == 0
    assert main([*words, "--out", str(out), "--pair", "zzz"]) == 1
    assert main([*words[:-2], "--side", "left", "--out", str(out)]) == 1


def test_the_ffmpeg_command_checks_the_frames_and_encodes_pairs(
    built: Built,
    ffmpeg: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    store = ["small", "--store", str(built.store), "--quiet"]
    verify = ["verify", *store, "--against-ffmpeg", "5", "--tolerance", "2"]
    encode = ["materialise", *store, "--aspect", "temporal_flow", "--out", str(tmp_path / "mp4"), "--encoder"]
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["verify", *store, "--tolerance", "2"]) == 1
    assert "belongs to --against-ffmpeg" in capsys.readouterr().err
    assert main(verify) == 1
    assert "no ffmpeg on PATH" in capsys.readouterr().err
    (tmp_path / "ffmpeg").symlink_to(ffmpeg)
    # the checks without ffmpeg have tests of their own
    monkeypatch.setattr("slvmeval.cli.store.release_check.check_release", lambda *_: [])
    assert main([*verify, "--json"]) == 0
    (source,) = json.loads(capsys.readouterr().out)["ffmpeg"]["sources"]
    assert source["frames"] == release(built).sources()[0].frame_count
    assert (source["differences"], source["problem"]) == ([], "")
    assert main([*encode, "libx264?preset=ultrafast"]) == 0
    assert "1 pairs in" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.rglob("*.mp4")) == ["high.mp4", "low.mp4"]
    frames = FfmpegCommand.frames
    monkeypatch.setattr(FfmpegCommand, "frames", lambda *asked: (255 - one for one in frames(*asked)))
    assert main(verify) == 1
    output = capsys.readouterr().out
    assert "reads 0 of 1 sources alike" in output
    assert "frames that differ" in output
    assert f"{source['frames'] - 10} more frames differ than shown" in output


def test_retry_knows_how_the_build_was_asked_for(built: Built, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["retry", "--store", str(built.store), "--direct", "--quiet"]
    assert main([*words, "--release", "small"]) == 0
    assert "unchanged" in capsys.readouterr().out
    assert main([*words, "--release", "other"]) == 1
    assert "no build of release 'other' was started" in capsys.readouterr().err


def test_a_gallery_of_the_same_version_is_not_written_again(built: Built, tmp_path: Path) -> None:
    gallery = tmp_path / "gallery"
    assert built.build("--gallery", str(gallery)) == 0
    assert built.result()["gallery"] == str(gallery / "index.html")
    before = {path: path.stat().st_mtime_ns for path in gallery.rglob("*") if path.is_file()}
    assert built.build("--gallery", str(gallery)) == 0
    assert {path: path.stat().st_mtime_ns for path in gallery.rglob("*") if path.is_file()} == before
    os.utime(gallery / "index.html", (1, 1))
    (gallery / "shows.json").unlink()
    assert main(["gallery", "small", "--store", str(built.store), "--out", str(gallery), "--quiet"]) == 0
    assert (gallery / "index.html").stat().st_mtime > 1


def test_a_pinned_recipe_makes_the_same_pairs(
    built: Built, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pinned = tmp_path / "pinned.json"
    words = ["export", "small", "--store", str(built.store), "--quiet", "--out"]
    assert main([*words, str(pinned), "--recipe-only"]) == 0
    again = Built(built.videos, tmp_path / "again", pinned, tmp_path / "again.json", 0)
    assert again.build() == 0
    assert again.result()["content_checksum"] == release(built).manifest.content_checksum
    assert again.build("--set", "seed=1") == 1
    assert "cannot be changed with --set" in capsys.readouterr().err
    # the film has no licence line, so it is exported only for internal use
    assert main([*words, str(tmp_path / "public")]) == 0
    assert "0 pairs" in capsys.readouterr().out
    assert main([*words, str(tmp_path / "own"), "--private"]) == 0
    assert len(list((tmp_path / "own").rglob("*.mp4"))) == 5


@pytest.mark.slow
def test_the_flow_makes_what_the_direct_build_makes(
    first: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)  # of a server that another test had
    other = Built(first.videos, tmp_path / "store", first.recipe, tmp_path / "summary.json", 0)
    words = other.command("build", "--workers", "1", "--quiet", "--summary", str(other.summary))
    ran = subprocess.run(
        [sys.executable, "-m", "slvmeval", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert other.result()["content_checksum"] == first.result()["content_checksum"]


@pytest.mark.slow
def test_the_demonstration_has_all_ten_aspects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["demo", "--folder", str(tmp_path), "--direct", "--quiet"]
    assert main(words) == 0
    made = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    assert [counts["built"] for counts in made["aspects"].values()] == [1] * 10
    page = tmp_path / "gallery" / "index.html"
    written = page.stat().st_mtime_ns
    assert str(page) in capsys.readouterr().out
    assert main(words) == 0
    assert page.stat().st_mtime_ns == written
