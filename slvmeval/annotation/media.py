"""Videos by signed links, with byte ranges. The desk is told what was sent, and believes nothing else."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

from anyio.to_thread import run_sync
from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse

from slvmeval.annotation import problems
from slvmeval.annotation.problems import Problem
from slvmeval.annotation.ranges import ByteRange, Unsatisfiable, parse_range, range_counts, unchanged
from slvmeval.annotation.sessions import MediaLink
from slvmeval.annotation.site import Site, not_found, site_of

router = APIRouter(prefix="/c/{campaign}/media")

#: A video goes out in pieces of so many bytes. The desk is told of each just before it is sent: whoever has
#: the whole of it can count on it, and whoever goes away has less than one piece too much.
PIECE = 512 * 1024


@router.api_route("/{signed}", methods=["GET", "HEAD"])
def media(request: Request, campaign: str, signed: str) -> Response:
    """Send a video, or a range of it, to the worker whose task it belongs to."""
    site = site_of(request)
    session = site.session(request, campaign)
    link = site.links.read(signed)
    if link is None or link.worker != session.worker:
        raise Problem(
            403,
            problems.MEDIA_LINK,
            "this video belongs to another session, or its link was changed: open your task again",
            f"/c/{campaign}/task",
        )
    path = _file(site, campaign, link)
    try:
        found = path.stat()
    except OSError as problem:
        raise Problem(
            503, problems.MEDIA_GONE, "this video is missing on the server: tell the organiser", retry_s=60
        ) from problem
    return _answer(request, site, campaign, link, path, found)


def _file(site: Site, campaign: str, link: MediaLink) -> Path:
    """Return the file behind a link; the link is worth as much as the lease."""
    assignment = site.desk.assignment(campaign, link.worker, link.assignment)
    if assignment.state == "rated":
        raise Problem(
            410, problems.MEDIA_LINK, "this task is answered: go on to the next", f"/c/{campaign}/task"
        )
    if link.place not in ("left", "right"):
        raise not_found()
    folder = Path(site.serving.media).resolve()
    path = (folder / assignment.file_at("left" if link.place == "left" else "right")).resolve()
    if not path.is_relative_to(folder):
        raise not_found()
    return path


def _answer(
    request: Request, site: Site, campaign: str, link: MediaLink, path: Path, found: os.stat_result
) -> Response:
    size = found.st_size
    etag = site.links.etag(link, size, found.st_mtime_ns)
    headers = {
        "Accept-Ranges": "bytes",
        "ETag": etag,
        # kept by this worker's browser, and asked for again each time: the answer is then a short one
        "Cache-Control": "private, no-cache",
    }
    asked = request.headers
    if unchanged(asked.get("if-none-match"), etag):
        return Response(status_code=304, headers=headers)
    wanted = None
    # a range is for GET only (RFC 9110, section 14.2)
    if request.method == "GET" and range_counts(asked.get("if-range"), etag):
        try:
            wanted = parse_range(asked.get("range"), size)
        except Unsatisfiable:
            return Response(status_code=416, headers={**headers, "Content-Range": f"bytes */{size}"})
    sent = wanted or ByteRange(0, size - 1)
    headers["Content-Length"] = str(sent.length)
    if wanted is not None:
        headers["Content-Range"] = f"bytes {sent.first}-{sent.last}/{size}"
    status = 200 if wanted is None else 206
    if request.method == "HEAD":
        return Response(status_code=status, headers=headers, media_type="video/mp4")
    pieces = _pieces(site, campaign, link, path, sent)
    return StreamingResponse(pieces, status, headers, media_type="video/mp4")


async def _pieces(
    site: Site, campaign: str, link: MediaLink, path: Path, sent: ByteRange
) -> AsyncIterator[bytes]:
    """Yield the bytes of a range, telling the desk of each piece."""
    opened = await run_sync(os.open, path, os.O_RDONLY)
    try:
        for first in range(sent.first, sent.last + 1, PIECE):
            last = min(first + PIECE - 1, sent.last)
            yield await run_sync(_piece, site, campaign, link, opened, first, last)
    finally:
        os.close(opened)


def _piece(site: Site, campaign: str, link: MediaLink, opened: int, first: int, last: int) -> bytes:
    """Read a piece and tell the desk; a file that became shorter ends the answer early."""
    piece = os.pread(opened, last - first + 1, first)
    if len(piece) != last - first + 1:
        raise OSError(f"the video of assignment {link.assignment} became shorter while it was sent")
    site.desk.serve(campaign, link.assignment, link.place, first, last)
    return piece
