"""Publishing generated videos to raters: files that browsers play, guides, and what is left out."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import av
import pytest

from storage_schemas.errors import UserInputError
from storage_schemas.store import Store
from tasks.annotation.desk.desk import Desk
from tasks.annotation.installation import media_folder
from tasks.annotation.publish_ratings import RatingsPublished, publish_ratings, rating_campaign
from tasks.extras.video_bench.suite import VideoBench
from tasks.scoring.setup import Setup
from tasks.scoring.suites.manifest import load_manifest
from tasks.scoring.suites.plan import Material, bring_together
from tasks.scoring.suites.prompts import load_prompts
from tasks.scoring.suites.registry import make_suite
from tests.tasks.annotation.example_desk import KEY, HandClock, open_desk


@pytest.fixture(scope="module")
def folder(ffmpeg: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Videos of two models, one of them no video, with a manifest and prompts."""
    path = tmp_path_factory.mktemp("videos")
    for name in ("one.mp4", "two.gif"):
        source = ["-f", "lavfi", "-i", "testsrc2=size=64x36:rate=5:duration=1"]
        subprocess.run([ffmpeg, "-v", "error", *source, str(path / name)], check=True)
    (path / "bad.mp4").write_bytes(b"bad")
    lines = ["model,prompt_id,file", "a,p0,one.mp4", "b,p0,two.gif", "a,p1,bad.mp4", "b,p9,one.mp4"]
    (path / "manifest.csv").write_text("\n".join(lines) + "\n")
    dimensions = "imaging_quality color_consistency"
    (path / "prompts.csv").write_text(
        f"prompt_id,text,dimensions\np0,A cat.,{dimensions}\np1,A dog.,color_consistency\n"
    )
    return path


class Place:
    """A store with a desk and a suite."""

    def __init__(self, root: Path, folder: Path, desk: Desk) -> None:
        self.root, self.desk = root, desk
        self.suite = make_suite("video-bench", Setup(store_path=str(root)))
        prompts = load_prompts(folder / "prompts.csv", self.suite)
        self.material: Material = bring_together(prompts, load_manifest(folder / "manifest.csv", folder))

    def publish(self, *dimensions: str, **how: object) -> RatingsPublished:
        campaign = rating_campaign(self.desk.campaigns.all(), self.suite, dimensions, **how)
        return publish_ratings(self.desk, self.root, KEY, campaign, self.suite, self.material)


@pytest.fixture
def place(tmp_path: Path, folder: Path) -> Iterator[Place]:
    root = Store.create(tmp_path / "store").root
    with open_desk(tmp_path, HandClock()) as desk:
        yield Place(root, folder, desk)


def test_each_video_is_a_task_in_each_of_its_dimensions_and_the_rest_is_named(place: Place) -> None:
    done = place.publish("imaging_quality", "color_consistency")
    assert (done.new, done.known, done.videos) == (4, 0, 2)
    assert [(one.where, one.reason) for one in done.left_out] == [
        ("video b/p9#0", "no_such_prompt"),
        ("video a/p1#0", "unreadable_video"),
    ]
    tasks = place.desk.campaigns.rating_tasks("video-bench-ratings")
    assert {(task.dimension, task.model, task.low, task.high) for task in tasks} == {
        *(("imaging_quality", model, 1, 5) for model in "ab"),
        *(("color_consistency", model, 1, 3) for model in "ab"),
    }
    assert {task.seconds for task in tasks} == {1.0}
    names = {path.name for path in media_folder(place.root).iterdir()}
    assert {task.file for task in tasks} == names
    assert len(names) == 2, "a video in two dimensions is one file"
    for name in names:
        with av.open(str(media_folder(place.root) / name)) as file:
            assert file.streams.video[0].codec_context.name == "h264"
    campaign = place.desk.campaigns.get("video-bench-ratings")
    assert (campaign.workers_per_pair, campaign.most_workers) == (4, 10)
    assert campaign.guide("color_consistency", "ja").levels[2][0] == 3


def test_publishing_again_keeps_settings_and_adds(place: Place, tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text('name = "study"\nworkers_per_pair = 12\npay_per_task = 0.2\n')
    place.publish("imaging_quality", settings=tmp_path / "settings.toml")
    done = place.publish("imaging_quality", "color_consistency", name="study")
    assert (done.new, done.known) == (2, 2)
    assert (done.campaign.workers_per_pair, done.campaign.most_workers) == (12, 12)
    assert (done.campaign.pay_per_task, done.pay) == (0.2, pytest.approx(4 * 12 * 0.2))
    assert "all ratings cost 9.60 USD" in done.in_words()
    # settings need no name
    (tmp_path / "paid.toml").write_text("pay_per_task = 0.5\n")
    campaign = rating_campaign([], place.suite, ["imaging_quality"], settings=tmp_path / "paid.toml")
    assert (campaign.name, campaign.pay_per_task) == ("video-bench-ratings", 0.5)


def test_publish_ratings_refuses_misfits_before_it_writes(place: Place, tmp_path: Path) -> None:
    (tmp_path / "few.toml").write_text("most_workers = 2\n")
    with pytest.raises(UserInputError, match="most_workers is smaller than workers_per_pair"):
        place.publish("imaging_quality", settings=tmp_path / "few.toml")
    (tmp_path / "guides" / "en").mkdir(parents=True)
    (tmp_path / "guides" / "en" / "imaging_quality.txt").write_text("# meaning\nx\n# scale\n1: a\n2: b\n")
    with pytest.raises(UserInputError, match="from 1 to 2, but the dimension's scale is from 1 to 5"):
        place.publish("imaging_quality", guides=tmp_path / "guides")
    with pytest.raises(UserInputError, match="is not a folder"):
        place.publish("imaging_quality", guides=tmp_path / "none")
    assert place.desk.campaigns.all() == []


def test_missing_guide_says_what_to_do(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VideoBench, "guide", lambda *_: None)
    with pytest.raises(UserInputError, match=r"write en/imaging_quality\.txt with the sections"):
        place.publish("imaging_quality")
    for language in ("en", "ja"):
        (tmp_path / language).mkdir()
        text = "# meaning\nMine.\n# scale\n1: a\n2: b\n3: c\n4: d\n5: e\n"
        (tmp_path / language / "imaging_quality.txt").write_text(text)
    done = place.publish("imaging_quality", guides=tmp_path)
    assert done.campaign.guide("imaging_quality", "ja").meaning == "Mine."
