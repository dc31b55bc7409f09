"""People are asked about a sample of controls; a smaller sample lies within a larger one."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage_schemas.release import Release
from tasks.annotation.campaign import Campaign
from tasks.annotation.pair_task import PairMedia, task_of
from tasks.annotation.publish import asked_controls, showing
from tests.tasks.publish.judging import ASPECTS, build_wide


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return build_wide(tmp_path_factory.mktemp("wide"), 8, controls=True)


def campaign(**fields: object) -> Campaign:
    values = {"name": "spring", "release": "wide", "version": 1, "equal_pairs": 0, **fields}
    return Campaign.model_validate(values)


def test_a_sample_of_each_aspect_is_asked_about(release: Release) -> None:
    samples = [asked_controls(campaign(control_pairs=n), release.pairs()) for n in (0, 2, 5, 99)]
    assert [len(sample) for sample in samples] == [0, 2 * len(ASPECTS), 5 * len(ASPECTS), 8 * len(ASPECTS)]
    assert samples[0] < samples[1] < samples[2] < samples[3]


def test_all_pairs_and_the_sample_are_shown(release: Release, tmp_path: Path) -> None:
    shown = showing(release, campaign(control_pairs=3), b"key").records
    assert sum(record.control for record in shown) == 3 * len(ASPECTS)
    assert sum(not record.control for record in shown) == 8 * len(ASPECTS)
    media = PairMedia(high_file="a", low_file="b", high_bytes=1, low_bytes=1)
    assert [task_of(release, record, media).control for record in shown] == [one.control for one in shown]
