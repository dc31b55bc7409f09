"""Starting the application: what is checked before, what is said, and how it ends.

What the application is told when it starts.
"""

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

from storage_schemas.errors import PrerequisiteError, UserInputError
from tasks.annotation.installation import derived_key, installation_key, sqlite_file

if TYPE_CHECKING:
    from tasks.annotation.campaign import Campaign
    from tasks.annotation.desk.desk import Desk


#: Where processes of one server find their settings; no secret is in it but what the database's address says.
VARIABLE = "SLVMEVAL_ANNOTATION_SERVING"

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Serving:
    """How one installation is served.

    Parameters
    ----------
    store
        Folder of the store.
    database
        Address of the database.
    media
        Folder of the videos.
    campaigns
        Names of the campaigns that are open; others are answered as if they were not there.
    host, port
        Where it listens.
    public_url
        The address that workers use, without a slash at its end; empty is ``http://host:port``.
    trusted_proxies
        Addresses whose ``X-Forwarded-*`` headers are believed, comma-separated; empty is none.
    texts
        Folder with texts that go over ours.
    platforms
        Platforms whose parameters let a worker in without a token: ``prolific``, ``mturk``.
    worker_a_minute, address_a_minute
        Most requests a minute of one worker and from one address; 0 is no limit.
    tries_a_minute
        Most entries with a bad link, and most wrong logins, a minute from one address; 0 is no limit.
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
    tries_a_minute: int = 30

    @property
    def texts_folder(self) -> Path | None:
        """Folder with texts that go over ours, or None."""
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
        """Whether workers come by https, so that cookies are kept off plain http."""
        return urlsplit(self.address).scheme == "https"

    @property
    def hosts(self) -> frozenset[str]:
        """Names under which it may be asked, in lower case, without ports."""
        names = {*LOOPBACK, urlsplit(self.address).hostname or ""}
        return frozenset(name.lower() for name in names if name)

    def at(self, **changes: object) -> Serving:
        """Return the same with other values."""
        return replace(self, **changes)  # type: ignore[arg-type]

    def to_environment(self) -> None:
        """Leave the settings where processes that are started from here find them."""
        os.environ[VARIABLE] = json.dumps(asdict(self))

    @classmethod
    def from_environment(cls) -> Serving:
        """Return the settings that the process which started this one left."""
        said = json.loads(os.environ[VARIABLE])
        lists = {name: tuple(said[name]) for name in ("campaigns", "platforms")}
        return cls(**{**said, **lists})


SECRET_VARIABLE = "SLVMEVAL_ORGANISER_SECRET"

#: The parameters with which workers of a platform come, as its own pages want them written.
PLATFORMS = {
    "prolific": "PROLIFIC_PID={{%PROLIFIC_PID%}}&STUDY_ID={{%STUDY_ID%}}&SESSION_ID={{%SESSION_ID%}}",
    "mturk": "workerId=...&assignmentId=...&hitId=...",
}

#: Makes the application in each process.
APP = "slvmeval.web.annotation.app:from_environment"

#: Answers that are being given when the server is told to end have so many seconds left.
GRACE_S = 10

_LEAST_SECRET = 16


@dataclass(frozen=True)
class AnnotationServer:
    """A server that can start: its settings, its socket, what to say."""

    serving: Serving
    socket: socket.socket
    lines: tuple[str, ...]
    warnings: tuple[str, ...]


def organiser_secret(key: bytes) -> str:
    """Return what the organiser logs in with: the variable, or words made of the installation's key.

    Raises
    ------
    UserInputError
        If the variable is set to something too short.
    """
    said = os.environ.get(SECRET_VARIABLE, "")
    if said and len(said) < _LEAST_SECRET:
        raise UserInputError(f"{SECRET_VARIABLE} is too short: set at least {_LEAST_SECRET} characters")
    return said or derived_key(key, "organiser").hex()[:24]


@contextmanager
def prepare(
    asked: Serving, name: str | None, *, private: bool = False, processes: int = 1
) -> Iterator[AnnotationServer]:
    """Check all that can be wrong before the first worker comes, and give what can be started.

    Parameters
    ----------
    asked
        Settings; its campaigns are found here, and port 0 becomes the one that was free.
    name
        A campaign, or a release of which there are campaigns; None is all.
    private
        Whether the organiser says that all who come may see sources that may not be passed on.
    processes
        How many processes will answer.

    Raises
    ------
    UserInputError
        If nothing of that name is published, options do not go together, or an aspect has no words.
    PrerequisiteError
        If the port is taken, the database away or of another version, or the licence of a source forbids it.
    """
    _check_options(asked, processes)
    if asked.database == f"sqlite:///{sqlite_file(asked.root)}" and not sqlite_file(asked.root).exists():
        raise UserInputError(_nothing(name, asked, ()))
    from slvmeval.web.annotation.pages.texts import check_texts
    from tasks.annotation.desk.desk import Desk

    key = installation_key(asked.root)
    secret = organiser_secret(key)
    desk = Desk.open(asked.database, key)
    try:
        chosen = chosen_campaigns(desk.campaigns.all(), name, asked)
        for one in chosen:
            aspects = sorted({task.aspect for task in desk.campaigns.tasks(one.name)})
            check_texts(one.languages, aspects, asked.texts_folder)
            if not private:
                _check_licences(desk, one, asked)
    finally:
        desk.close()
    opened = _listen(asked.host, asked.port)
    try:
        serving = asked.at(port=opened.getsockname()[1], campaigns=tuple(one.name for one in chosen))
        yield AnnotationServer(serving, opened, _lines(serving, chosen, secret), _warnings(serving, private))
    finally:
        opened.close()


def chosen_campaigns(published: Sequence[Campaign], name: str | None, asked: Serving) -> list[Campaign]:
    """Return the campaigns that `name` means: one of that name, else all of a release of that name.

    Raises
    ------
    UserInputError
        If there is none.
    """
    exact = [one for one in published if one.name == name]
    chosen = exact or [one for one in published if name in (None, one.release)]
    if not chosen:
        raise UserInputError(_nothing(name, asked, [one.name for one in published]))
    return chosen


def run_server(ready: AnnotationServer, processes: int = 1, app: str = APP) -> None:
    """Answer until the process is told to end; answers that are being given are finished first."""
    import uvicorn
    from uvicorn.supervisors import Multiprocess

    ready.serving.to_environment()
    config = uvicorn.Config(app, workers=processes, **options(ready.serving))
    if processes == 1:
        uvicorn.Server(config).run(sockets=[ready.socket])
    else:
        Multiprocess(config, sockets=[ready.socket]).run()


def options(serving: Serving) -> dict[str, Any]:
    """Return how uvicorn is to run: no header of a stranger is believed, and it does not say what it is."""
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
        # a process that loads its libraries on a busy machine says nothing for some seconds
        "timeout_worker_healthcheck": 60,
    }


def _check_options(asked: Serving, processes: int) -> None:
    for platform in asked.platforms:
        if platform not in PLATFORMS:
            raise UserInputError(f"--platform {platform}: choose {' or '.join(PLATFORMS)}")
    if processes > 1 and asked.database.startswith("sqlite"):
        raise UserInputError(
            "--processes needs a database that several processes write: --database postgresql+psycopg://…"
        )
    if asked.public_url:
        parts = urlsplit(asked.public_url)
        if parts.scheme not in ("http", "https") or not parts.hostname or asked.public_url != _origin(parts):
            raise UserInputError(f"--public-url {asked.public_url}: write https://HOST, or https://HOST:PORT")
    elif asked.host not in LOOPBACK:
        raise UserInputError(
            f"--host {asked.host}: say with --public-url at which address workers come, for example "
            f"--public-url http://{socket.gethostname()}:{asked.port}"
        )


def _origin(parts: SplitResult) -> str:
    return f"{parts.scheme}://{parts.netloc}"


def _nothing(name: str | None, asked: Serving, there: Sequence[str]) -> str:
    what = (
        "nothing is published" if name is None else f"neither a campaign nor a release {name!r} is published"
    )
    known = f" (there are {', '.join(there)})" if there else ""
    command = f"slvmeval annotate publish {name or 'RELEASE'} --store {asked.store}"
    return f"{what} in the database of {asked.store}{known}: {command}"


def _check_licences(desk: Desk, campaign: Campaign, asked: Serving) -> None:
    """Refuse to serve pairs of sources that may not be passed on."""
    from storage_schemas.release import Release
    from storage_schemas.store import Store

    release = Release.open(Store.open(asked.root), campaign.release, campaign.version)
    free = {row.source_id for row in release.sources() if row.redistributable}
    count = sum(task.source_id not in free for task in desk.campaigns.tasks(campaign.name))
    if count:
        raise PrerequisiteError(
            f"{count} pairs of campaign {campaign.name} are of sources that may not be passed on: say "
            "--private-audience if all who come are under your agreement with the owner, or publish the "
            "campaign without them"
        )


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    # a server that was ended a moment ago does not hold its port
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


def _lines(serving: Serving, chosen: Sequence[Campaign], secret: str) -> tuple[str, ...]:
    where = "this machine only" if serving.host in LOOPBACK else "all who reach this machine"
    shown = [f"listening on {serving.host}:{serving.port}, for {where}"]
    for one in chosen:
        enter = f"{serving.address}/c/{one.name}/enter"
        shown.append(f"campaign {one.name} (release {one.release}, version {one.version})")
        shown.append(f"  workers:  {enter}?token=TOKEN (slvmeval annotate links)")
        shown += [f"  {platform + ':':<9} {enter}?{PLATFORMS[platform]}" for platform in serving.platforms]
    shown.append(f"organiser: {serving.address}/organiser/")
    shown.append(
        f"  secret:  {secret}"
        if not os.environ.get(SECRET_VARIABLE)
        else f"  secret:  what {SECRET_VARIABLE} says"
    )
    return tuple([*shown, "end it with Ctrl-C; nothing is lost, start it again at any time"])


def _warnings(serving: Serving, private: bool) -> tuple[str, ...]:
    said = []
    if serving.host not in LOOPBACK and not serving.secure:
        said.append("workers come by plain http: what they send can be read on the way; put https before it")
    if serving.secure and not serving.trusted_proxies:
        said.append(
            "behind a server that speaks https say --behind-proxy, or all workers seem to have one address"
        )
    if private:
        said.append(
            "sources that may not be passed on are shown too: give links only to whom you agreed with"
        )
    return tuple(said)
