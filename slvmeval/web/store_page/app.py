"""The application: the page of a store, and the galleries and reports written from it.

All addresses begin with a secret that changes with each start. Nothing can be changed: there are only GET
requests, and the only other folders shown are those of remembered pages.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path

from fastapi import APIRouter, FastAPI
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, RedirectResponse, Response

from slvmeval.web.annotation.security import Limiter, RequestGuard
from slvmeval.web.annotation.serve import Serving
from slvmeval.web.local_server import LocalPages, let_in, new_secret
from slvmeval.web.store_page.overview import overview, release_page
from storage_schemas.errors import SlvmevalError
from storage_schemas.release import find_version, name_and_version
from storage_schemas.store import Store
from storage_schemas.written_pages import written_pages
from tasks.page_frame import SCRIPT, STYLE, frame_asset

_PAGES = LocalPages("slvmeval.web.store_page")
#: Seconds between reloads of the page while a build runs.
REFRESH_S = 5
#: Written pages have their own, stricter policies; their styles and scripts are inline.
_WRITTEN_POLICY = {
    "Content-Security-Policy": "default-src 'self' data:; script-src 'self' 'unsafe-inline'; "
    "style-src 'self' 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "private, max-age=60",
}


_KEPT = {"Cache-Control": "private, max-age=3600"}


@dataclass(frozen=True)
class StorePage:
    """State of the application.

    Parameters
    ----------
    database
        Address of the annotation database; None for the one in the store.
    """

    store: Store
    database: str | None = None
    secret: str = field(default_factory=new_secret)

    def written(self, page_id: str, name: str) -> Path:
        """Return a file next to a remembered page; answer 404 if there is none."""
        page = next((page for page in written_pages(self.store) if page.id == page_id), None)
        if page is None:
            raise HTTPException(404, "this page no longer exists")
        folder = Path(page.path).parent.resolve()
        path = (folder / (name or Path(page.path).name)).resolve()
        if not path.is_relative_to(folder) or not path.is_file():
            raise HTTPException(404, "there is no such file")
        return path


def create_app(page: StorePage, serving: Serving) -> FastAPI:
    """Return the application.

    Parameters
    ----------
    serving
        Only its host and port are used: requests under other names are rejected.
    """
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.include_router(_router(page), prefix="/{secret}")
    app.add_exception_handler(HTTPException, _PAGES.on_http)
    # a gallery has many small pictures
    app.add_middleware(RequestGuard, serving=serving.at(address_a_minute=0), limiter=Limiter())
    return app


def _router(page: StorePage) -> APIRouter:
    router = APIRouter()

    @router.get("/")
    def first(secret: str) -> Response:
        let_in(secret, page.secret)
        shown = overview(page.store, page.database)
        return _PAGES.page("overview", refresh=REFRESH_S if shown.running else 0, shown=shown)

    @router.get("/releases/{release}")
    def one_release(secret: str, release: str) -> Response:
        let_in(secret, page.secret)
        try:
            name, version = name_and_version(release)
            shown = release_page(page.store, *find_version(page.store, name, version))
        except SlvmevalError as problem:
            raise HTTPException(404, str(problem)) from problem
        return _PAGES.page("release", shown=shown)

    @router.get("/style.css")
    def style(secret: str) -> Response:
        let_in(secret, page.secret)
        return Response(_style(), media_type="text/css", headers=_KEPT)

    @router.get("/frame.js")
    def script(secret: str) -> Response:
        let_in(secret, page.secret)
        return Response(frame_asset(SCRIPT), media_type="text/javascript", headers=_KEPT)

    @router.get("/pages/{page_id}")
    def whole(secret: str, page_id: str) -> Response:
        let_in(secret, page.secret)
        name = page.written(page_id, "").name
        return RedirectResponse(f"/{page.secret}/pages/{page_id}/{name}")

    @router.get("/pages/{page_id}/{name:path}")
    def written(secret: str, page_id: str, name: str) -> Response:
        let_in(secret, page.secret)
        return FileResponse(page.written(page_id, name), headers=_WRITTEN_POLICY)

    return router


@cache
def _style() -> bytes:
    """Return the reports' style sheet with this page's additions."""
    report = files("tasks.report").joinpath("assets", "report.css").read_bytes()
    return frame_asset(STYLE).encode() + report + _PAGES.asset("store.css")
