from __future__ import annotations

import os
from pathlib import Path

import pytest

from tasks import plugins

GROUP = "slvmeval.tests"


def install(site: Path, name: str) -> None:
    info = site / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {name}:make\n")


def test_packages_are_read_once_until_an_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scans = []
    real = plugins.entry_points
    monkeypatch.setattr(plugins, "entry_points", lambda group: scans.append(group) or real(group=group))
    monkeypatch.syspath_prepend(str(tmp_path))
    assert plugins.added_points(GROUP, (), "thing") == {}
    install(tmp_path, "one")
    # a folder's time may be as coarse as the clock of its file system
    os.utime(tmp_path, ns=(1, 1))
    for _ in range(3):
        assert list(plugins.added_points(GROUP, (), "thing")) == ["one"]
    assert len(scans) == 2
    install(tmp_path, "two")
    os.utime(tmp_path, ns=(2, 2))
    assert list(plugins.added_points(GROUP, (), "thing")) == ["one", "two"]
