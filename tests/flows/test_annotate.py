"""From a release to the pairs that people kept: each step as far as it is due, and nothing twice."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from flows.annotate.flow import ANNOTATE
from flows.annotate.options import AnnotateOptions
from flows.annotate.parameters import AnnotateParameters
from flows.annotate.run import Annotation, annotation, table
from infra.executor import InlineExecutor, ProcessExecutor, WorkerDied
from infra.profile import Profile
from infra.progress import BuildProgress
from storage_schemas.errors import UserInputError
from storage_schemas.model import ModelServer
from storage_schemas.release import Release
from storage_schemas.store import FRAMES, Store
from storage_schemas.votes import VotesStore
from tasks.annotation.desk.desk import Desk
from tasks.annotation.exchange.answers import import_answers
from tasks.annotation.exchange.mapping import AnswerMapping
from tasks.annotation.exchange.task_table import Slots
from tasks.annotation.installation import database_url, installation_key, media_folder
from tasks.annotation.media import media_tasks
from tasks.annotation.publish import equal_pairs
from tasks.annotation.translation import TranslationParameters
from tasks.publish.release import write_release
from tasks.recipe import load_recipe
from tasks.votes.release_votes import read_release_votes
from tests.inline import annotate_inline
from tests.tasks.publish.conftest import Small, build_small  # noqa: F401 - a fixture
from tests.tiny_models.faulty_server import FaultyServer, Reply

#: What the workers say of the pairs of each aspect, one letter a worker.
SOME, MORE = {"aesthetics": "AAA", "temporal_flow": "ABC"}, {"aesthetics": "AAABA", "temporal_flow": "ABCAA"}


@pytest.fixture(scope="module")
def built(build_small: Callable[[Path], Small], tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: F811
    """A store with a release of four aspects of two sources, of which one may be passed on."""
    return build_small(tmp_path_factory.mktemp("built")).store.root


@pytest.fixture
def store(built: Path, tmp_path: Path) -> Path:
    shutil.copytree(built, tmp_path / "store")
    return tmp_path / "store"


@pytest.fixture(scope="module")
def put_before(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store once its release is shown, which takes longest: it writes the videos."""
    root = tmp_path_factory.mktemp("put-before") / "store"
    shutil.copytree(built, root)
    annotate_inline(asked(root))
    return root


@pytest.fixture
def published(put_before: Path, tmp_path: Path) -> Path:
    shutil.copytree(put_before, tmp_path / "store")
    return tmp_path / "store"


@pytest.fixture
def with_videos(store: Path, put_before: Path) -> Path:
    """The store, of which nothing is published, with the videos of all pairs: to write them takes longest."""
    shutil.copytree(media_folder(put_before), media_folder(store))
    shutil.copy(put_before / "annotation" / "key", store / "annotation")
    return store


def asked(store: Path, **fields: Any) -> AnnotateOptions:
    given = {"database": database_url(store), "private_audience": True, **fields}
    return AnnotateOptions.at(Profile(store=str(store)), **given)


def vote(store: Path, folder: Path, ratings: dict[str, str], campaign: str = "small-1") -> None:
    """Let workers of a platform rate the pairs of each aspect, A where nothing else is stated."""
    key = installation_key(store)
    slots = Slots(key, campaign)
    with Desk.open(database_url(store), key) as desk:
        rows = [
            {"task": slots.slot(task.pair_id, n).id, "worker": n, "preferred": "high", "rating": rating}
            for task in desk.campaigns.tasks(campaign)
            for n, rating in enumerate(ratings.get(task.aspect, "A" * len(ratings["aesthetics"])), 1)
        ]
        path = folder / "answers.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        assert import_answers(desk, key, campaign, [path], AnswerMapping()).left_out == ()


def shown(store: Path, campaign: str = "small-1") -> dict[str, Any]:
    with Desk.open(database_url(store), installation_key(store)) as desk:
        return {task.pair_id: task for task in desk.campaigns.tasks(campaign)}


def test_annotate_goes_from_a_release_to_what_people_kept(store: Path, tmp_path: Path) -> None:
    settings = tmp_path / "campaign.toml"
    settings.write_text('name = "small-1"\nuntil_certain = false\n')
    first = annotate_inline(asked(store, campaign_settings=str(settings)))
    assert first.in_words() == (
        "Campaign small-1 shows 8 pairs of release small version 1, 8 of them new. 8 of 8 pairs show "
        "captions that are not translated into 'ja', a language of the pages: `slvmeval annotate translate "
        "small --language ja`, then publish again. 0 votes and 0 decisions "
        "of campaign small-1 are new; 0 of 8 pairs have all their votes."
    )
    assert first.complete
    assert not first.collected.complete
    files = set(media_folder(store).iterdir())
    assert len(files) == 16 + 8, "and four check tasks of two equal videos"
    # half of the votes: nothing is filtered
    vote(store, tmp_path, SOME)
    half = annotate_inline(asked(store))
    assert (half.published.new, half.collected.votes, half.filtered) == (0, 24, "")
    assert {path: path.stat().st_mtime_ns for path in media_folder(store).iterdir()}.keys() == files
    vote(store, tmp_path, MORE)
    whole = annotate_inline(asked(store))
    assert whole.collected.complete
    assert whole.collected.votes == 16
    assert whole.filtered == "Release small-filtered version 1 is written: 6 of 8 pairs remain."
    kept = Release.open(Store.open(store), "small-filtered")
    assert "temporal_flow" not in {record.aspect for record in kept.pairs()}
    assert len(kept.pairs()) == 6
    assert len(VotesStore(Store.open(store)).votes(["small-1"])) == 40
    # the release that it is about is still meant, though there are two now
    again = annotate_inline(asked(store))
    assert (again.published.known, again.collected.votes) == (8, 0)
    assert "small-filtered version 1 already exists" in again.filtered
    assert {row["what"]: row for row in table(again)}["pairs with all their votes"]["count"] == 8


def test_pairs_get_votes_until_they_are_certain(published: Path, tmp_path: Path) -> None:
    # three agree on most pairs, which is enough; on those of one aspect they do not
    vote(published, tmp_path, {"aesthetics": "AAA", "temporal_flow": "CBA"})
    half = annotate_inline(asked(published)).collected
    assert (half.done, half.tasks, half.votes) == (6, 8, 24)
    # the others say that nothing is to be seen there
    vote(published, tmp_path, {"aesthetics": "AAA", "temporal_flow": "CBACCCC"})
    whole = annotate_inline(asked(published))
    assert whole.collected.complete
    assert whole.filtered == "Release small-filtered version 1 is written: 6 of 8 pairs remain."
    filtered = read_release_votes(Release.open(Store.open(published), "small-filtered"))
    assert filtered is not None
    assert filtered.rule.until_certain
    assert {one.verdict for one in filtered.outcomes if one.aspect == "temporal_flow"} == {"excluded_unclear"}
    assert all(one.clear > 0.95 for one in filtered.outcomes if one.kept and one.clear is not None)


def test_filter_comes_now_or_never(published: Path, tmp_path: Path) -> None:
    assert "Campaign small-1 has no votes yet" in annotate_inline(asked(published, filter="now")).filtered
    vote(published, tmp_path, {"aesthetics": "AAAAA", "temporal_flow": "A"})
    assert annotate_inline(asked(published)).filtered == ""
    now = annotate_inline(asked(published, filter="now", filtered="early"))
    assert now.filtered == "Release early version 1 is written: 6 of 8 pairs remain."
    vote(published, tmp_path, {"aesthetics": "AAAAA"})
    assert annotate_inline(asked(published, filter="never")).filtered == ""


def test_captions_are_translated_before_they_are_shown_and_once(with_videos: Path) -> None:
    def japanese(_number: int, body: dict[str, Any]) -> Reply:
        return Reply(text=f"訳: {json.loads(body['messages'][1]['content'])['caption']}")

    words = TranslationParameters(model="tiny")
    with FaultyServer(japanese) as server:
        servers = {"translation": ModelServer(url=server.url, patience_s=1.0)}
        options = asked(with_videos, translation=words, model_servers=servers)
        result = annotate_inline(options)
        clips = len({seen.body["messages"][1]["content"] for seen in server.seen})
        assert result.translated is not None
        assert len(result.translated.texts) == clips == len(server.seen)
        annotate_inline(options)
        assert len(server.seen) == clips
    for task in shown(with_videos).values():
        assert all(clip.translation == f"訳: {clip.caption}".strip() for clip in task.prompt_clips)


def test_captions_are_shown_as_they_are_without_the_translating_server(with_videos: Path) -> None:
    result = annotate_inline(asked(with_videos, translation=TranslationParameters()))
    assert "model_servers" in result.translation_problem
    assert not result.complete
    assert result.published.shown == 8
    assert not any(clip.translation for task in shown(with_videos).values() for clip in task.prompt_clips)


def test_new_version_is_shown_only_when_it_is_asked_for(published: Path) -> None:
    store = published
    release = Release.open(Store.open(store))
    sources = release.sources()[:1]
    id_ = sources[0].source_id
    recipe = load_recipe("cpu-approx")
    planned = dict.fromkeys(recipe.aspects, 2)
    write_release(
        release.store, "small", recipe, release.pairs(source_id=id_), sources, release.clips(id_), [], planned
    )
    output: list[str] = []
    progress = BuildProgress(quiet=True)
    progress.say = output.append  # type: ignore[method-assign, assignment]
    result = annotate_inline(asked(store), progress)
    assert (result.published.campaign.name, result.published.new) == ("small-1", 0)
    assert "@2 publishes that one" in output[0]
    other = annotate_inline(asked(store, version=2)).published
    assert (other.campaign.name, other.campaign.version, other.new) == ("small-2", 2, 4)
    assert len(shown(store)) == 8
    with pytest.raises(UserInputError, match="shows release small version 1, not small version 2"):
        annotate_inline(asked(store, campaign="small-1", version=2))


def test_campaign_settings_go_over_those_of_the_recipe(with_videos: Path, tmp_path: Path) -> None:
    path = tmp_path / "campaign.toml"
    path.write_text('name = "spring"\nworkers_per_pair = 3\npay_per_task = 1.5\naspects = ["aesthetics"]\n')
    made = annotate_inline(asked(with_videos, campaign_settings=str(path))).published.campaign
    assert (made.name, made.workers_per_pair, made.version, made.pay_per_task) == ("spring", 3, 1, 1.5)
    assert {task.aspect for task in shown(with_videos, "spring").values()} == {"aesthetics"}
    # published again without the file it keeps them, with a changed one it takes them over
    assert annotate_inline(asked(with_videos)).published.campaign == made
    path.write_text('name = "spring"\naspects = ["colour"]\n')
    with pytest.raises(UserInputError, match="no pairs of colour"):
        annotate_inline(asked(with_videos, campaign_settings=str(path)))
    path.write_text('relase = "main"\n')
    with pytest.raises(UserInputError, match="relase"):
        annotate_inline(asked(with_videos, campaign_settings=str(path), campaign="x"))
    with pytest.raises(UserInputError, match="does not exist"):
        annotate_inline(asked(with_videos, campaign_settings=str(tmp_path / "none.toml")))


def test_sources_that_may_not_be_passed_on_are_shown_to_nobody_unasked(store: Path) -> None:
    result = annotate_inline(asked(store, private_audience=False)).published
    assert (result.shown, result.withheld, result.withheld_pairs) == (4, ("secret two",), 4)
    assert {task.source_id for task in shown(store).values()} == {"film/<b>one</b>"}
    assert len(list(media_folder(store).iterdir())) == 8 + 4
    assert "4 pairs of 1 source that may not be redistributed are left out" in result.in_words()
    # asked for, and taken back: then nobody sees them any more
    assert annotate_inline(asked(store)).published.new == 4
    again = annotate_inline(asked(store, private_audience=False)).published
    assert (again.known, again.retired) == (4, 4)
    assert len(shown(store)) == 4


def test_source_without_frames_harms_no_other(store: Path, tmp_path: Path) -> None:
    opened = Store.open(store)
    gone = Release.open(opened).sources()[0]
    frames = opened.artifact_path(FRAMES, gone.frames_id)
    frames.rename(tmp_path / "away")
    result = annotate_inline(asked(store))
    assert list(result.published.failed) == [gone.source_id]
    assert not result.complete
    assert (result.published.shown, result.published.failed_pairs) == (4, 4)
    (tmp_path / "away").rename(frames)
    assert annotate_inline(asked(store)).published.shown == 8


def test_death_while_videos_are_written_costs_its_source_only(store: Path) -> None:
    class Dying(InlineExecutor):
        def result(self, handle: Any) -> Any:
            outcome = super().result(handle)
            if outcome[0].outcome.source_id == first:
                raise WorkerDied("killed")
            return outcome

    def none() -> ProcessExecutor:
        raise AssertionError("there is nothing to write")

    first = Release.open(Store.open(store)).sources()[0].source_id
    with annotation(asked(store), BuildProgress(quiet=True)) as made:
        assert isinstance(made, Annotation)
        failed = made.publish(Dying).failed
        assert list(failed) == [first]
        assert "killed" in failed[first]
        # a process writes what is missing
        assert made.publish(partial(ProcessExecutor, 1)).shown == 8
        assert made.publish(none).known == 8
    release = Release.open(Store.open(store))
    equal = equal_pairs(made.campaign, release.pairs())
    tasks = media_tasks(release, release.pairs(), installation_key(store), equal)
    names = {name for task in tasks for pair in task.pairs for name in (pair.high, pair.low)}
    assert {path.name for path in media_folder(store).iterdir()} == names


def test_release_may_be_called_what_no_campaign_can(with_videos: Path) -> None:
    (with_videos / "releases" / "small").rename(with_videos / "releases" / "v1.0")
    assert annotate_inline(asked(with_videos)).published.campaign.name == "v1-0-1"
    with pytest.raises(UserInputError, match="letters, digits"):
        annotate_inline(asked(with_videos, campaign="a b"))


def test_annotate_asks_back_what_could_mean_several_things(with_videos: Path, tmp_path: Path) -> None:
    annotate_inline(asked(with_videos, campaign="students"))
    annotate_inline(asked(with_videos, campaign="prolific"))
    with pytest.raises(UserInputError, match=r"several campaigns \(prolific, students\)"):
        annotate_inline(asked(with_videos))
    assert annotate_inline(asked(with_videos, campaign="students")).published.known == 8
    path = tmp_path / "campaign.toml"
    path.write_text('name = "students"\nrelease = "other"\n')
    with pytest.raises(UserInputError, match="shows release small version 1, not other version 1"):
        annotate_inline(asked(with_videos, campaign_settings=str(path)))
    vote(with_videos, tmp_path, {"aesthetics": "AAAAA"}, "students")
    annotate_inline(asked(with_videos, campaign="students"))
    with pytest.raises(UserInputError, match="publish the release it was filtered from"):
        annotate_inline(asked(with_videos, release="small-filtered"))
    # the two campaigns' votes are not mixed: nobody of the other has voted
    assert annotate_inline(asked(with_videos, campaign="prolific", filter="now")).filtered.startswith(
        "Campaign prolific has no votes yet"
    )


def test_annotate_on_a_worker_reports_wrong_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLVMEVAL_PROFILE", raising=False)
    relative = ({"profile": "site.toml"}, {"settings": "c.toml"}, {"store": "store"})
    cases: list[tuple[dict[str, Any], str]] = [(given, "not an absolute path") for given in relative]
    cases.append(({"prompts": "p", "translate_into": "ja"}, "not an absolute path"))
    cases.append(({"filter_when": "soon"}, "must be 'complete', 'now' or 'never'"))
    cases.append(({"translate_into": "j"}, "translation: language"))
    for given, said in cases:
        with pytest.raises(UserInputError, match=said):
            parameters = AnnotateParameters.of_form({"profile": "", "store": "/nowhere", **given})
            ANNOTATE.options(parameters, parameters.site_on_worker())
