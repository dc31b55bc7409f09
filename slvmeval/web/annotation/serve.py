"""Starting the annotation server: its settings, the checks before the start, and its messages."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from slvmeval.command_line import command_line
from slvmeval.web.annotation.prolific import KEYS
from storage_schemas.errors import PrerequisiteError, UserInputError
from tasks.annotation.installation import derived_key, installation_key, sqlite_file

if TYPE_CHECKING:
    from tasks.annotation.campaign import Campaign
    from tasks.annotation.desk.desk import Desk


#: Variable with the settings for a server's processes; its only secret is in the database's address.
VARIABLE = "SLVMEVAL_ANNOTATION_SERVING"

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Serving:
    """Settings of one server.

    Parameters
    ----------
    store
        Folder of the store.
    database
        Address of the database.
    media
        Folder of the videos.
    campaigns
        Names of the open campaigns; others are treated as unknown.
    host, port
        Where it listens.
    public_url
        The address that workers use, without a trailing slash; empty means ``http://host:port``.
    trusted_proxies
        Addresses whose ``X-Forwarded-*`` headers are trusted, comma-separated; empty for none.
    texts
        Folder with texts that override ours.
    platforms
        Platforms whose parameters admit a worker without a link's token: ``prolific``, whose signed token is
        verified, and ``mturk`` and ``prolific-unsigned``, whose parameters anyone can invent.
    worker_a_minute, address_a_minute
        Maximum number of requests per minute of one worker and from one address; 0 for no limit.
    send_files
        The header that makes the proxy in front send the videos, ``X-Accel-Redirect`` (nginx) or
        ``X-Sendfile`` (Apache and others); empty if this server sends them.
    prolific_keys
        Address of Prolific's public keys.
    new_a_minute
        Maximum number of new workers per minute from one address whose ids are unsigned; 0 for no limit.
    attempts_a_minute
        Maximum number of entries with a bad link, and of wrong logins, per minute from one address; 0 for no
        limit.
    """

    store: str
    database: str
    media: str
    campaigns: tuple[str, ...]
    host: str = "127.0.0.1"
    port: int = 8017
    public_url: str = ""
    trusted_proxies: str = ""
    texts: str = ""
    platforms: tuple[str, ...] = ()
    worker_a_minute: int = 300
    address_a_minute: int = 6000
    attempts_a_minute: int = 30
    new_a_minute: int = 6
    prolific_keys: str = KEYS
    send_files: str = ""

    @property
    def texts_folder(self) -> Path | None:
        """Folder with texts that override ours, or None."""
        return Path(self.texts) if self.texts else None

    @property
    def root(self) -> Path:
        """Folder of the store."""
        return Path(self.store)

    @property
    def address(self) -> str:
        """The address that workers use."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.public_url or f"http://{host}:{self.port}"

    @property
    def secure(self) -> bool:
        """Whether workers use https, so that cookies are never sent over plain http."""
        return urlsplit(self.address).scheme == "https"

    @property
    def audience(self) -> tuple[str, ...]:
        """Names of this server that a platform's token may contain."""
        parts = urlsplit(self.address)
        return tuple(dict.fromkeys((self.address, f"{self.address}/", parts.netloc, parts.hostname or "")))

    @property
    def hosts(self) -> frozenset[str]:
        """Accepted host names, in lower case, without ports."""
        names = {*LOOPBACK, urlsplit(self.address).hostname or ""}
        return frozenset(name.lower() for name in names if name)

    def at(self, **changes: object) -> Serving:
        """Return a copy with changed values."""
        return replace(self, **changes)  # type: ignore[arg-type]

    def to_environment(self) -> None:
        """Pass the settings on to processes started from here."""
        os.environ[VARIABLE] = json.dumps(asdict(self))

    @classmethod
    def from_environment(cls) -> Serving:
        """Return the settings passed on by the parent process."""
        values = json.loads(os.environ[VARIABLE])
        lists = {name: tuple(values[name]) for name in ("campaigns", "platforms")}
        return cls(**{**values, **lists})


SECRET_VARIABLE = "SLVMEVAL_ORGANISER_SECRET"
CHECKER_VARIABLE = "SLVMEVAL_CHECKER_SECRET"

_PROLIFIC = "PROLIFIC_PID={{%PROLIFIC_PID%}}&STUDY_ID={{%STUDY_ID%}}&SESSION_ID={{%SESSION_ID%}}"
#: Query parameters of each platform's workers, in the platform's own notation.
PLATFORMS = {
    "prolific": _PROLIFIC,
    "prolific-unsigned": _PROLIFIC,
    "mturk": "workerId=...&assignmentId=...&hitId=...",
}

#: Headers that tell a proxy to send a video. The first names an internal location of nginx, whose
#: ``alias`` is the media folder; the other the file.
SEND_FILES = ("X-Accel-Redirect", "X-Sendfile")
ACCEL_LOCATION = "/slvmeval-media/"

#: Factory of the application in each process.
APP = "slvmeval.web.annotation.app:from_environment"

#: Seconds for finishing responses on shutdown.
GRACE_S = 10

_MIN_SECRET = 16


@dataclass(frozen=True)
class AnnotationServer:
    """A server ready to start: its settings, its socket, its messages."""

    serving: Serving
    socket: socket.socket
    lines: tuple[str, ...]
    warnings: tuple[str, ...]


def organiser_secret(key: bytes) -> str:
    """Return the organiser's secret: the variable, or one derived from the installation's key.

    Raises
    ------
    UserInputError
        If the variable is set to something too short.
    """
    return _secret(key, "organiser", SECRET_VARIABLE)


def checker_secret(key: bytes) -> str:
    """Return the secret for checking ratings, derived like :func:`organiser_secret`."""
    return _secret(key, "checker", CHECKER_VARIABLE)


def _secret(key: bytes, role: str, variable: str) -> str:
    secret = os.environ.get(variable, "")
    if secret and len(secret) < _MIN_SECRET:
        raise UserInputError(f"{variable} is too short: set at least {_MIN_SECRET} characters")
    return secret or derived_key(key, role).hex()[:24]


@contextmanager
def prepare(
    settings: Serving, name: str | None, *, private: bool = False, processes: int = 1
) -> Iterator[AnnotationServer]:
    """Check everything before the first worker arrives, and return a server ready to start.

    Parameters
    ----------
    asked
        Settings; the campaigns are filled in here, and port 0 becomes a free one.
    name
        A campaign, or a release with campaigns; None for all.
    private
        Whether the organiser asserts that every worker may see sources that may not be redistributed.
    processes
        Number of processes that serve.

    Raises
    ------
    UserInputError
        If nothing of that name is published, options contradict each other, or an aspect has no texts.
    PrerequisiteError
        If the port is taken, the database is unavailable or of another version, or a source's licence forbids
        it.
    """
    _check_options(settings, processes)
    if (
        settings.database == f"sqlite:///{sqlite_file(settings.root)}"
        and not sqlite_file(settings.root).exists()
    ):
        raise UserInputError(_nothing(name, settings, ()))
    from slvmeval.web.annotation.pages.texts import check_texts
    from tasks.annotation.desk.desk import Desk
    from tasks.annotation.desk.workers import CHECK_CHOICES
    from tasks.annotation.publish import untranslated

    key = installation_key(settings.root)
    # invalid values end the start here, before anyone waits for it
    organiser_secret(key)
    checker_secret(key)
    desk = Desk.open(settings.database, key)
    said: list[str] = []
    try:
        selected = campaigns_to_serve(desk.campaigns.all(), name, settings)
        settings = settings.at(public_url=_public_url(settings, selected))
        for one in selected:
            aspects = sorted({task.aspect for task in desk.campaigns.tasks(one.name)})
            asks = CHECK_CHOICES if one.comprehension else 0
            check_texts(one.languages, aspects, settings.texts_folder, asks)
            said.append(untranslated(one, desk.campaigns.tasks(one.name)))
            if not private and one.kind == "pairs":
                _check_licences(desk, one, settings)
    finally:
        desk.close()
    opened = _listen(settings.host, settings.port)
    try:
        serving = settings.at(port=opened.getsockname()[1], campaigns=tuple(one.name for one in selected))
        warnings = (*_warnings(serving, private), *filter(None, said))
        yield AnnotationServer(serving, opened, _lines(serving, selected, key), warnings)
    finally:
        opened.close()


def campaigns_to_serve(published: Sequence[Campaign], name: str | None, settings: Serving) -> list[Campaign]:
    """Return the campaign called `name`, else all campaigns of the release of that name.

    Raises
    ------
    UserInputError
        If there is none.
    """
    exact = [one for one in published if one.name == name]
    selected = exact or [one for one in published if name in (None, one.release)]
    if not selected:
        raise UserInputError(_nothing(name, settings, [one.name for one in published]))
    return selected


def run_server(ready: AnnotationServer, processes: int = 1, app: str = APP) -> None:
    """Serve until the process is terminated; responses in progress are finished first."""
    import uvicorn
    from uvicorn.supervisors import Multiprocess

    ready.serving.to_environment()
    config = uvicorn.Config(app, workers=processes, **options(ready.serving))
    if processes == 1:
        uvicorn.Server(config).run(sockets=[ready.socket])
    else:
        Multiprocess(config, sockets=[ready.socket]).run()


def options(serving: Serving) -> dict[str, Any]:
    """Return uvicorn's settings: trust only known proxies, and send no server header."""
    return {
        "factory": True,
        "host": serving.host,
        "port": serving.port,
        "proxy_headers": bool(serving.trusted_proxies),
        "forwarded_allow_ips": serving.trusted_proxies or None,
        "server_header": False,
        "access_log": False,
        "log_level": "warning",
        "timeout_graceful_shutdown": GRACE_S,
        "timeout_keep_alive": 30,
        # on a busy machine a process may not respond for seconds while it loads its libraries
        "timeout_worker_healthcheck": 60,
    }


def _check_options(settings: Serving, processes: int) -> None:
    for platform in settings.platforms:
        if platform not in PLATFORMS:
            raise UserInputError(f"--platform {platform}: choose {', '.join(PLATFORMS)}")
    if {"prolific", "prolific-unsigned"} <= set(settings.platforms):
        raise UserInputError(
            "--platform prolific and prolific-unsigned: choose one; the second needs no signature"
        )
    if settings.send_files and settings.send_files not in SEND_FILES:
        raise UserInputError(f"--set send_files={settings.send_files}: choose {' or '.join(SEND_FILES)}")
    if settings.send_files and not settings.trusted_proxies:
        raise UserInputError(
            "--set send_files=… needs a proxy in front that sends the videos: --set behind_proxy=ADDRESS"
        )
    if processes > 1 and settings.database.startswith("sqlite"):
        raise UserInputError(
            "--set processes=N needs a database with several writers: --database postgresql+psycopg://…"
        )
    if settings.public_url:
        parts = urlsplit(settings.public_url)
        if (
            parts.scheme not in ("http", "https")
            or not parts.hostname
            or settings.public_url != _origin(parts)
        ):
            raise UserInputError(
                f"--public-url {settings.public_url}: write https://HOST, or https://HOST:PORT"
            )


def _public_url(settings: Serving, selected: Sequence[Campaign]) -> str:
    """Return the address that workers use: the given one, else that of the campaigns, else empty."""
    named = {one.public_url for one in selected if one.public_url}
    if not settings.public_url and len(named) > 1:
        raise UserInputError(
            f"the campaigns have several addresses ({', '.join(sorted(named))}): give "
            "--public-url, or serve them separately"
        )
    address = settings.public_url or "".join(named)
    if not address and settings.host not in LOOPBACK:
        raise UserInputError(
            f"--host {settings.host}: set the workers' address with --public-url, for example "
            f"--public-url http://{socket.gethostname()}:{settings.port}"
        )
    return address


def _origin(parts: SplitResult) -> str:
    return f"{parts.scheme}://{parts.netloc}"


def _nothing(name: str | None, settings: Serving, published: Sequence[str]) -> str:
    what = (
        "nothing is published" if name is None else f"neither a campaign nor a release {name!r} is published"
    )
    listed = f" (there are {', '.join(published)})" if published else ""
    command = command_line("annotate", "publish", name or "RELEASE", store=settings.store)
    return f"{what} in the database of {settings.store}{listed}: {command}"


def _check_licences(desk: Desk, campaign: Campaign, settings: Serving) -> None:
    """Raise an error for pairs of sources that may not be redistributed."""
    from storage_schemas.release import Release
    from storage_schemas.store import Store

    release = Release.open(Store.open(settings.root), campaign.release, campaign.version)
    free = {row.source_id for row in release.sources() if row.redistributable}
    count = sum(task.source_id not in free for task in desk.campaigns.tasks(campaign.name))
    if count:
        raise PrerequisiteError(
            f"{count} pairs of campaign {campaign.name} come from sources that may not be redistributed: "
            "give --private if all workers are covered by your agreement with the owner, or publish "
            "the campaign without them"
        )


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    # do not wait for the port of a server that has just ended
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((host, port))
        opened.listen(2048)
    except OSError as problem:
        opened.close()
        raise PrerequisiteError(
            f"cannot listen on {host}:{port} ({problem.strerror}): choose another --port, or 0 for a free one"
        ) from problem
    opened.set_inheritable(True)
    return opened


def _lines(serving: Serving, selected: Sequence[Campaign], key: bytes) -> tuple[str, ...]:
    where = "this machine only" if serving.host in LOOPBACK else "everyone who can reach this machine"
    lines = [f"listening on {serving.host}:{serving.port}, for {where}"]
    for one in selected:
        enter = f"{serving.address}/c/{one.name}/enter"
        lines.append(f"campaign {one.name} ({one.shows})")
        lines.append(f"  workers:  {enter}?token=TOKEN (slvmeval annotate links)")
        lines += [f"  {platform + ':':<9} {enter}?{PLATFORMS[platform]}" for platform in serving.platforms]
    lines.append(f"organiser: {serving.address}/organiser/")
    lines.append(f"  secret:  {_shown(SECRET_VARIABLE, organiser_secret(key))}")
    if any(one.kind == "ratings" for one in selected):
        lines.append(f"  secret for checking ratings only: {_shown(CHECKER_VARIABLE, checker_secret(key))}")
    return tuple([*lines, "stop the server with Ctrl-C and restart it at any time; nothing is lost"])


def _shown(variable: str, secret: str) -> str:
    return f"the value of {variable}" if os.environ.get(variable) else secret


def _warnings(serving: Serving, private: bool) -> tuple[str, ...]:
    warnings = []
    if serving.host not in LOOPBACK and not serving.secure:
        warnings.append("workers use plain http, which can be read in transit: put an https proxy in front")
    if serving.secure and not serving.trusted_proxies:
        warnings.append(
            "behind an https proxy, give --set behind_proxy=…, or all workers appear to share one address"
        )
    if private:
        warnings.append(
            "sources that may not be redistributed are shown as well: give links only to people covered "
            "by your agreement"
        )
    if unsigned := sorted(set(serving.platforms) - {"prolific"}):
        warnings.append(
            f"the ids of {' and '.join(unsigned)} are not signed: anyone with the address can invent them"
        )
    return tuple(warnings)
