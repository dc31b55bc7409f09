"""Style sheets and scripts of the pages: read once, compressed once, known by their content."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.responses import Response

from slvmeval.annotation.pages.render import ASSETS, ASSETS_URL
from slvmeval.annotation.ranges import unchanged
from slvmeval.annotation.site import not_found

_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}


@dataclass(frozen=True)
class Asset:
    """One file, as it is sent."""

    body: bytes
    packed: bytes
    etag: str
    media_type: str


def read_assets(folder: Path) -> dict[str, Asset]:
    """Return the files of a folder by name; nothing else can be asked for."""
    found = {}
    for path in sorted(folder.iterdir()):
        if path.is_file():
            body = path.read_bytes()
            kind = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
            etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
            found[path.name] = Asset(body, gzip.compress(body, 9, mtime=0), etag, kind)
    return found


def assets_router(folder: Path = ASSETS) -> APIRouter:
    """Return what serves the files of a folder."""
    known = read_assets(folder)
    router = APIRouter(prefix=ASSETS_URL)

    @router.api_route("/{name}", methods=["GET", "HEAD"])
    async def asset(request: Request, name: str) -> Response:
        found = known.get(name)
        if found is None:
            raise not_found()
        headers = {"ETag": found.etag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if unchanged(request.headers.get("if-none-match"), found.etag):
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", "").lower():
            packed = {**headers, "Content-Encoding": "gzip"}
            return Response(found.packed, headers=packed, media_type=found.media_type)
        return Response(found.body, headers=headers, media_type=found.media_type)

    return router
