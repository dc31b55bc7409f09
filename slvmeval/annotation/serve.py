"""Starting the application: what is checked before, what is said, and how it ends."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from slvmeval.annotation.settings import LOOPBACK, Serving
from storage_schemas.errors import PrerequisiteError, UserInputError
from tasks.annotation.places import derived_key, installation_key, sqlite_file

if TYPE_CHECKING:
    from tasks.annotation.campaign import Campaign
    from tasks.annotation.desk import Desk

SECRET_VARIABLE = "SLVMEVAL_ORGANISER_SECRET"

#: The parameters with which workers of a platform come, as its own pages want them written.
PLATFORMS = {
    "prolific": "PROLIFIC_PID={{%PROLIFIC_PID%}}&STUDY_ID={{%STUDY_ID%}}&SESSION_ID={{%SESSION_ID%}}",
    "mturk": "workerId=...&assignmentId=...&hitId=...",
}

#: Makes the application in each process.
APP = "slvmeval.annotation.app:from_environment"

#: Answers that are being given when the server is told to end have so many seconds left.
GRACE_S = 10

_LEAST_SECRET = 16


@dataclass(frozen=True)
class Ready:
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
) -> Iterator[Ready]:
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
    from slvmeval.annotation.pages.texts import check_texts
    from tasks.annotation.desk import Desk

    key = installation_key(asked.root)
    secret = organiser_secret(key)
    desk = Desk.open(asked.database, key)
    try:
        chosen = chosen_campaigns(desk.campaigns(), name, asked)
        for one in chosen:
            aspects = sorted({task.aspect for task in desk.tasks(one.name)})
            check_texts(one.languages, aspects, asked.texts_folder)
            if not private:
                _check_licences(desk, one, asked)
    finally:
        desk.close()
    opened = _listen(asked.host, asked.port)
    try:
        serving = asked.at(port=opened.getsockname()[1], campaigns=tuple(one.name for one in chosen))
        yield Ready(serving, opened, _lines(serving, chosen, secret), _warnings(serving, private))
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


def run_server(ready: Ready, processes: int = 1, app: str = APP) -> None:
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
    count = sum(task.source_id not in free for task in desk.tasks(campaign.name))
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
