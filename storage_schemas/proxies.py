"""Proxies of the environment: the addresses they do not serve, and the notation that libraries need."""

from __future__ import annotations

import ipaddress
import logging
import os
import socket
from urllib.parse import urlsplit

log = logging.getLogger(__name__)

#: The variables that name a proxy; each also in lower case.
VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
#: The kinds that the HTTP clients know.
_KINDS = ("http", "https", "socks5", "socks5h")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def is_near(url: str) -> bool:
    """Return whether an address is on this machine or its local network, which proxies do not serve.

    Examples
    --------
    >>> is_near("http://10.1.2.3:8000/v1"), is_near("http://head:4200/api"), is_near("https://api.openai.com")
    (True, True, False)
    """
    host = urlsplit(url).hostname or ""
    try:
        return _is_private(host)
    except ValueError:
        return "." not in host or host.endswith(".localhost")


def repair_proxies(*urls: str) -> None:
    """Make the environment's proxies usable by HTTP clients, but not for the run's own addresses.

    Afterwards ``NO_PROXY`` contains loopback, and those of `urls` on this machine or its network.
    ``socks://``, as desktops write it, becomes ``socks5://``. A variable with another kind of proxy is
    removed with a warning: HTTP clients would fail because of it, even for an address that needs no proxy.

    Parameters
    ----------
    urls
        Addresses of the run's servers.
    """
    if not [name for name in _spellings() if _usable(name)]:
        return
    near = [urlsplit(url).hostname or "" for url in urls if is_near(url) or _resolves_near(url)]
    given = [os.environ.get(name, "") for name in ("no_proxy", "NO_PROXY")]
    entries = [part.strip() for text in given for part in text.split(",")]
    joined = ",".join(dict.fromkeys(part for part in (*entries, *_LOOPBACK, *near) if part))
    os.environ["no_proxy"] = os.environ["NO_PROXY"] = joined


def _spellings() -> list[str]:
    return [spelling for name in VARIABLES for spelling in (name, name.lower())]


def _usable(name: str) -> bool:
    """Repair or remove a variable; return whether it names a proxy that clients can use."""
    value = os.environ.get(name, "").strip()
    kind, separator, rest = value.partition("://")
    if separator and kind.lower() == "socks":
        os.environ[name] = f"socks5://{rest}"
    elif separator and kind.lower() not in _KINDS:
        log.warning("%s is not used: the proxy kind %s:// is not one of %s", name, kind, ", ".join(_KINDS))
        del os.environ[name]
        return False
    return bool(value)


def _resolves_near(url: str) -> bool:
    """Return whether an address's host is in the local network."""
    host = urlsplit(url).hostname
    if not host:
        return False
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return all(_is_private(str(address[0])) for *_, address in found)


def _is_private(address: str) -> bool:
    found = ipaddress.ip_address(address.partition("%")[0])
    return found.is_loopback or found.is_private
