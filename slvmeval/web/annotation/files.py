"""Videos by signed links with byte ranges, and the pages' style sheets and scripts."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
import os
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from anyio.to_thread import run_sync
from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse

from slvmeval.web.annotation import problems
from slvmeval.web.annotation.pages.render import ASSETS, ASSETS_URL
from slvmeval.web.annotation.problems import Problem
from slvmeval.web.annotation.serve import ACCEL_LOCATION
from slvmeval.web.annotation.sessions import MediaLink
from slvmeval.web.annotation.site import Site, not_found, site_of

#: Longer numbers exceed any file size.
_MAX_DIGITS = 18

_ONE = re.compile(r"[ \t]*([0-9]*)-([0-9]*)[ \t]*")


@dataclass(frozen=True)
class ByteRange:
    """Bytes `first` to `last`, both included."""

    first: int
    last: int

    @property
    def length(self) -> int:
        """Number of bytes."""
        return self.last - self.first + 1


class Unsatisfiable(Exception):
    """The requested range is outside the file: answer 416."""


def parse_range(header: str | None, size: int) -> ByteRange | None:
    """Return the bytes requested by a ``Range`` header; None means the whole file.

    Headers that are not understood are ignored, as the RFC allows: other units, several ranges, inverted
    ranges.

    Parameters
    ----------
    header
        The header's value, or None.
    size
        Bytes of the file.

    Raises
    ------
    Unsatisfiable
        If the range is valid but outside the file.
    """
    unit, _, ranges = (header or "").partition("=")
    match = _ONE.fullmatch(ranges)
    if unit.strip().lower() != "bytes" or match is None or match.groups() == ("", ""):
        return None
    first_text, last_text = match.groups()
    if not first_text:
        return _suffix(_number(last_text), size)
    first = _number(first_text)
    last = _number(last_text) if last_text else size - 1
    if last_text and last < first:
        return None
    if first >= size:
        raise Unsatisfiable
    return ByteRange(first, min(last, size - 1))


def _suffix(length: int, size: int) -> ByteRange:
    if not length or not size:
        raise Unsatisfiable
    return ByteRange(max(0, size - length), size - 1)


def _number(text: str) -> int:
    digits = text.lstrip("0")
    return int(digits or "0") if len(digits) <= _MAX_DIGITS else 10**_MAX_DIGITS


def unchanged(if_none_match: str | None, etag: str) -> bool:
    """Return whether the client has this content (``If-None-Match``, weak comparison), for a 304 response."""
    if if_none_match is None:
        return False
    tags = {tag.strip().removeprefix("W/") for tag in if_none_match.split(",")}
    return "*" in tags or etag in tags


def range_counts(if_range: str | None, etag: str) -> bool:
    """Return whether ``Range`` applies: without ``If-Range``, or if it is this tag (strong comparison).

    We never send dates, so a date does not match.
    """
    return if_range is None or if_range.strip() == etag


router = APIRouter(prefix="/c/{campaign}/media")

#: Size of the pieces of a video. Each is reported to the desk just before it is sent: a complete download is
#: always counted in full, and an aborted one is overcounted by less than one piece.
PIECE = 512 * 1024


@router.api_route("/{signed}", methods=["GET", "HEAD"])
def media(request: Request, campaign: str, signed: str) -> Response:
    """Send a video, or a range of it, to the worker of its task."""
    site = site_of(request)
    session = site.session(request, campaign)
    link = site.links.read(signed)
    if link is None or link.worker != session.worker:
        raise Problem(
            403,
            problems.MEDIA_LINK,
            "this video belongs to another session, or its link was altered: open your task again",
            f"/c/{campaign}/task",
        )
    path = _file(site, campaign, link)
    try:
        file_stat = path.stat()
    except OSError as problem:
        raise Problem(
            503, problems.MEDIA_GONE, "this video is missing on the server: tell the organiser", retry_s=60
        ) from problem
    return _answer(request, site, campaign, link, path, file_stat)


def _file(site: Site, campaign: str, link: MediaLink) -> Path:
    """Return the file behind a link, which is valid as long as the lease."""
    assignment = site.desk.answers.assignment(campaign, link.worker, link.assignment)
    if assignment.state == "rated" and not assignment.training:
        raise Problem(
            410,
            problems.MEDIA_LINK,
            "this task is already answered: continue with the next one",
            f"/c/{campaign}/task",
        )
    if link.place not in ("left", "right"):
        raise not_found()
    folder = Path(site.serving.media).resolve()
    file = assignment.file_at("left" if link.place == "left" else "right")
    if file is None:
        raise not_found()
    path = (folder / file).resolve()
    if not path.is_relative_to(folder):
        raise not_found()
    return path


def _answer(
    request: Request, site: Site, campaign: str, link: MediaLink, path: Path, file_stat: os.stat_result
) -> Response:
    size = file_stat.st_size
    etag = site.links.etag(link, size, file_stat.st_mtime_ns)
    headers = {
        "Accept-Ranges": "bytes",
        "ETag": etag,
        # cached by this worker's browser, which revalidates it each time with a short response
        "Cache-Control": "private, no-cache",
    }
    request_headers = request.headers
    if unchanged(request_headers.get("if-none-match"), etag):
        return Response(status_code=304, headers=headers)
    wanted = None
    # a range applies to GET only (RFC 9110, section 14.2)
    if request.method == "GET" and range_counts(request_headers.get("if-range"), etag):
        try:
            wanted = parse_range(request_headers.get("range"), size)
        except Unsatisfiable:
            return Response(status_code=416, headers={**headers, "Content-Range": f"bytes */{size}"})
    sent = wanted or ByteRange(0, size - 1)
    headers["Content-Length"] = str(sent.length)
    if wanted is not None:
        headers["Content-Range"] = f"bytes {sent.first}-{sent.last}/{size}"
    if site.serving.send_files and request.method == "GET":
        return _by_proxy(site, campaign, link, path, sent, headers["ETag"])
    status = 200 if wanted is None else 206
    if request.method == "HEAD":
        return Response(status_code=status, headers=headers, media_type="video/mp4")
    pieces = _pieces(site, campaign, link, path, sent)
    return StreamingResponse(pieces, status, headers, media_type="video/mp4")


def _by_proxy(site: Site, campaign: str, link: MediaLink, path: Path, sent: ByteRange, etag: str) -> Response:
    """Tell the proxy to send a video, handling ranges itself; the requested bytes count as sent."""
    site.desk.viewing.serve(campaign, link.assignment, link.place, sent.first, sent.last)
    name = site.serving.send_files
    within = path.relative_to(Path(site.serving.media).resolve()).as_posix()
    target = ACCEL_LOCATION + quote(within) if name == "X-Accel-Redirect" else str(path)
    headers = {name: target, "ETag": etag, "Cache-Control": "private, no-cache"}
    return Response(headers=headers, media_type="video/mp4")


async def _pieces(
    site: Site, campaign: str, link: MediaLink, path: Path, sent: ByteRange
) -> AsyncIterator[bytes]:
    """Yield the bytes of a range and report each piece to the desk."""
    opened = await run_sync(os.open, path, os.O_RDONLY)
    try:
        for first in range(sent.first, sent.last + 1, PIECE):
            last = min(first + PIECE - 1, sent.last)
            yield await run_sync(_piece, site, campaign, link, opened, first, last)
    finally:
        os.close(opened)


def _piece(site: Site, campaign: str, link: MediaLink, opened: int, first: int, last: int) -> bytes:
    """Read a piece and report it to the desk; a truncated file ends the response early."""
    piece = os.pread(opened, last - first + 1, first)
    if len(piece) != last - first + 1:
        raise OSError(f"the video of assignment {link.assignment} became shorter while it was sent")
    site.desk.viewing.serve(campaign, link.assignment, link.place, first, last)
    return piece


_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}


@dataclass(frozen=True)
class Asset:
    """One static file, ready to send."""

    body: bytes
    packed: bytes
    etag: str
    media_type: str


def read_assets(folder: Path) -> dict[str, Asset]:
    """Return the files of a folder by name; nothing else is served."""
    assets = {}
    for path in sorted(folder.iterdir()):
        if path.is_file():
            body = path.read_bytes()
            kind = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
            etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
            assets[path.name] = Asset(body, gzip.compress(body, 9, mtime=0), etag, kind)
    return assets


def assets_router(folder: Path = ASSETS) -> APIRouter:
    """Return the handler that serves the files of a folder."""
    assets = read_assets(folder)
    router = APIRouter(prefix=ASSETS_URL)

    @router.api_route("/{name}", methods=["GET", "HEAD"])
    async def asset(request: Request, name: str) -> Response:
        static = assets.get(name)
        if static is None:
            raise not_found()
        headers = {"ETag": static.etag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if unchanged(request.headers.get("if-none-match"), static.etag):
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", "").lower():
            packed = {**headers, "Content-Encoding": "gzip"}
            return Response(static.packed, headers=packed, media_type=static.media_type)
        return Response(static.body, headers=headers, media_type=static.media_type)

    return router
