"""What a run on a worker does, from the parameters of its form."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flows.release.flow import BUILD
from flows.release.options import BuildOptions
from flows.release.parameters import BuildParameters
from infra.profile import Profile
from storage_schemas.errors import UserInputError


def on_worker(**given: object) -> tuple[BuildOptions, Profile]:
    """Return options and settings of a run, as the shell makes them of a form."""
    parameters = BuildParameters.of_form(given)
    site = parameters.site_on_worker()
    return BUILD.options(parameters, site), site


@pytest.fixture
def site(tmp_path: Path) -> str:
    """A profile whose paths count from its folder."""
    file = tmp_path / "site.toml"
    file.write_text(
        'name = "lab"\nstore = "store"\nsources = ["films", "folder:/more"]\nrelease = "nights"\n'
        'settle_s = 30.0\nworkers = 3\ngallery = "gallery"\n[placement]\naesthetics = "cpu"\n',
        encoding="utf-8",
    )
    return str(file)


def test_form_with_empty_values_is_as_the_profile_says(site: str, tmp_path: Path) -> None:
    options, result = on_worker(
        profile=site, release="", store="", model_folders=(), settle_s=0.0, gallery="", workers=0
    )
    assert [root.path for root in options.sources] == [str(tmp_path / "films"), "/more"]
    assert (options.store, options.release) == (str(tmp_path / "store"), "nights")
    assert (options.settle_s, options.recipe.name) == (30.0, "cpu-approx")
    assert options.placement.placed == {"aesthetics": "cpu"}
    assert (result.workers, result.gallery) == (3, str(tmp_path / "gallery"))


def test_form_goes_over_the_profile(site: str) -> None:
    options, result = on_worker(
        profile=site,
        sources=["folder:/new"],
        changes=["clips_per_pair=3"],
        release="eight",
        store="/stores/8",
        model_folders=["/weights"],
        settle_s=5.0,
        workers=7,
        fresh=True,
        retry=True,
    )
    assert [root.path for root in options.sources] == ["/new"]
    assert (options.store, options.release, options.model_folders) == ("/stores/8", "eight", ("/weights",))
    assert (options.recipe.clips_per_pair, options.settle_s, result.workers) == (3, 5.0, 7)
    assert options.fresh
    assert options.retry


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"profile": "site.toml"}, "profile: 'site.toml' is not an absolute path"),
        ({"sources": ["folder:/v"]}, "store: 'slvmeval-store' is not an absolute path"),
        ({"sources": ["videos"], "store": "/s"}, "sources: 'videos' is not an absolute path"),
        ({"sources": ["/v"], "store": "/s", "gallery": "here"}, "gallery: 'here' is not an absolute path"),
        ({"store": "/s"}, "no sources: give"),
        ({"sources": ["vrip:/v"], "store": "/s"}, "Did you mean 'vript:/v'?"),
        ({"sources": ["/v"], "store": "/s", "recipe": "cpu-aprox"}, "Did you mean 'cpu-approx'?"),
        ({"sources": ["/v"], "store": "/s", "changes": ["x=1"]}, "the recipe has no 'x'"),
        (
            {"sources": ["/v"], "store": "/s", "release": "../up"},
            "a release's name must have at most 64 letters",
        ),
        ({"sources": ["/v"], "store": "/s", "workers": -1}, "must be at least 1"),
    ],
)
def test_form_with_wrong_values_is_reported(
    given: dict[str, object], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SLVMEVAL_PROFILE", "SLVMEVAL_STORE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UserInputError, match=re.escape(said)):
        on_worker(**given)


def test_form_begins_with_the_flows_own_parameters() -> None:
    form = list(BuildParameters.form())
    assert form[:6] == ["sources", "recipe", "changes", "release", "fresh", "retry"]
    assert set(form[-2:]) == {"store", "profile"}
