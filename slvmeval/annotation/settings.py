"""What the application is told when it starts."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

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
