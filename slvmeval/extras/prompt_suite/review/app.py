"""The review application: a list of drafts, a page for each, and their stills and videos.

All addresses begin with a secret that changes with each start, so that no other user of the machine and no
page of another site can read or write anything. The browser is restricted as on the annotation pages. The
server listens on this machine only and ends with the process. Stills are encoded as JPEG when a browser
requests them.
"""

from __future__ import annotations

import hmac
import io
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, FastAPI, Form, Request
from fastapi.exceptions import RequestValidationError
from PIL import Image
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, RedirectResponse, Response

from slvmeval.web.annotation.security import Limiter, RequestGuard
from slvmeval.web.annotation.serve import Serving
from slvmeval.web.local_server import LocalPages, LocalServer, let_in, new_secret, prepare_server
from storage_schemas.errors import SetAside, StoreError, UserInputError
from storage_schemas.value_problems import value_problem
from tasks.extras.prompt_suite.project import Draft, Project, Review
from tasks.scoring.suites.file_video import FrameRate, OpenVideos
from tasks.scoring.suites.shown_videos import evenly

_PAGES = LocalPages("slvmeval.extras.prompt_suite.review")
#: Number of stills per video, including its first and last frame.
STILLS = 12
#: Longer side in pixels.
SIDE = 480
_QUALITY = 80
#: Number of cached stills.
_MAX_CACHED = 20 * STILLS


@dataclass(frozen=True)
class Stills:
    """Creates stills one at a time, because only one thread may read a video."""

    _videos: OpenVideos = field(default_factory=lambda: OpenVideos(FrameRate(long_side=SIDE)))
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _cache: OrderedDict[tuple[str, int], bytes] = field(default_factory=OrderedDict)

    def times(self, path: str) -> list[float]:
        """Return the times of the stills in seconds.

        Raises
        ------
        SetAside
            If the video cannot be read.
        """
        with self._lock:
            video = self._videos.open(path)
            return [float(video.times_s[index]) for index in evenly(range(len(video)), STILLS)]

    def jpeg(self, path: str, number: int) -> bytes | None:
        """Return a still by its number from 0; None if there is none.

        Raises
        ------
        SetAside
            If the video cannot be read.
        """
        with self._lock:
            if (path, number) not in self._cache:
                video = self._videos.open(path)
                indices = evenly(range(len(video)), STILLS)
                if not 0 <= number < len(indices):
                    return None
                file = io.BytesIO()
                Image.fromarray(video.rgb(indices[number])).save(file, "JPEG", quality=_QUALITY)
                self._cache[path, number] = file.getvalue()
                while len(self._cache) > _MAX_CACHED:
                    self._cache.popitem(last=False)
            return self._cache[path, number]


_MAX_NAME_LENGTH = 200
_CACHED = {"Cache-Control": "private, max-age=3600"}


@dataclass(frozen=True)
class ReviewDesk:
    """State shared by the pages.

    Parameters
    ----------
    by
        Initial name in the form.
    secret, csrf
        Prefix of all addresses, and the token that forms must send.
    """

    project: Project
    by: str = ""
    secret: str = field(default_factory=new_secret)
    csrf: str = field(default_factory=new_secret)
    stills: Stills = field(default_factory=Stills)

    def draft(self, prompt_id: str) -> Draft:
        """Return a draft; answer 404 if there is none."""
        draft = self.project.draft(prompt_id)
        if draft is None:
            raise HTTPException(404, f"there is no draft {prompt_id[:100]}")
        return draft


def create_app(desk: ReviewDesk, serving: Serving) -> FastAPI:
    """Return the application.

    Parameters
    ----------
    serving
        Only its host and port are used: requests under other names are rejected.
    """
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.include_router(_router(desk), prefix="/{secret}")
    app.add_exception_handler(HTTPException, _PAGES.on_http)
    app.add_exception_handler(StoreError, _on_store)
    app.add_exception_handler(RequestValidationError, _on_unfit)
    app.add_middleware(RequestGuard, serving=serving, limiter=Limiter())
    return app


def _router(desk: ReviewDesk) -> APIRouter:
    router = APIRouter()

    @router.get("/")
    def overview(secret: str) -> Response:
        let_in(secret, desk.secret)
        current = desk.project.current()
        rows = [(draft, _state(draft, current)) for draft in desk.project.drafts()]
        return _PAGES.page("overview", rows=rows, open=sum(state == "open" for _, state in rows))

    @router.get("/style.css")
    def style(secret: str) -> Response:
        let_in(secret, desk.secret)
        return Response(_PAGES.asset("style.css"), media_type="text/css", headers=_CACHED)

    @router.get("/keep.js")
    def script(secret: str) -> Response:
        let_in(secret, desk.secret)
        return Response(_PAGES.asset("keep.js"), media_type="text/javascript", headers=_CACHED)

    @router.get("/prompt/{prompt_id}")
    def one(secret: str, prompt_id: str) -> Response:
        let_in(secret, desk.secret)
        draft = desk.draft(prompt_id)
        review = desk.project.approved(draft)
        text = review.text if review is not None and review.text else draft.text
        # recorded under the current reviewer, not the previous one
        by = desk.by or (review.by if review is not None else "")
        return _prompt(desk, draft, text, by, review.note if review is not None else "")

    @router.post("/prompt/{prompt_id}")
    def save(
        secret: str,
        prompt_id: str,
        draft: Annotated[str, Form(max_length=_MAX_NAME_LENGTH)],
        csrf: Annotated[str, Form(max_length=_MAX_NAME_LENGTH)],
        verdict: Annotated[str, Form(max_length=_MAX_NAME_LENGTH)],
        text: Annotated[str, Form()] = "",
        by: Annotated[str, Form(max_length=_MAX_NAME_LENGTH)] = "",
        note: Annotated[str, Form()] = "",
        seen: Annotated[str, Form(max_length=_MAX_NAME_LENGTH)] = "",
    ) -> Response:
        let_in(secret, desk.secret)
        if not hmac.compare_digest(csrf.encode(), desk.csrf.encode()):
            raise HTTPException(403, "this did not come from a page of this session: open the page again")
        stored_draft = desk.draft(prompt_id)
        try:
            desk.project.review(prompt_id, draft, verdict, text, by, note, seen)
        except UserInputError as problem:
            # keep the person's text on the page
            return _prompt(desk, stored_draft, text, by, note, str(problem), 422)
        return RedirectResponse(_next(desk, prompt_id), 303)

    @router.get("/still/{prompt_id}/{number}")
    def still(secret: str, prompt_id: str, number: int) -> Response:
        let_in(secret, desk.secret)
        try:
            picture = desk.stills.jpeg(desk.draft(prompt_id).video.path, number)
        except SetAside as problem:
            raise HTTPException(404, problem.message) from problem
        if picture is None:
            raise HTTPException(404, "there is no such still")
        return Response(picture, media_type="image/jpeg", headers=_CACHED)

    @router.get("/video/{prompt_id}")
    def video(secret: str, prompt_id: str) -> Response:
        let_in(secret, desk.secret)
        path = Path(desk.draft(prompt_id).video.path)
        if not path.is_file():
            raise HTTPException(404, f"{path} does not exist")
        return FileResponse(path, headers=_CACHED)

    return router


def _state(draft: Draft, current: Mapping[tuple[str, str], Review]) -> str:
    review = current.get((draft.prompt_id, draft.digest))
    return "open" if review is None else review.verdict


def _next(desk: ReviewDesk, prompt_id: str) -> str:
    """Return the next page: the next open draft, else the list."""
    current = desk.project.current()
    open_ = [one.prompt_id for one in desk.project.drafts() if _state(one, current) == "open"]
    later = [one for one in open_ if one > prompt_id] or open_
    return f"/{desk.secret}/prompt/{later[0]}" if later else f"/{desk.secret}/"


def _prompt(
    desk: ReviewDesk, draft: Draft, text: str, by: str, note: str, problem: str = "", status: int = 200
) -> Response:
    review = desk.project.approved(draft)
    unreadable, times = "", []
    try:
        times = desk.stills.times(draft.video.path)
    except SetAside as refused:
        unreadable = refused.message
    return _PAGES.page(
        "prompt",
        status,
        draft=draft,
        state="open" if review is None else review.verdict,
        seen="" if review is None else review.id,
        # shown next to the text that could not be saved
        other=draft.text if review is None else review.text,
        text=text,
        by=by,
        note=note,
        problem=problem,
        csrf=desk.csrf,
        times=times,
        unreadable=unreadable,
    )


def _on_unfit(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, RequestValidationError)
    first = problem.errors()[0]
    return _PAGES.page("problem", 422, message=f"{first['loc'][-1]}: {value_problem(first)}")


def _on_store(request: Request, problem: Exception) -> Response:
    return _PAGES.page("problem", 500, message=str(problem))


@contextmanager
def prepare_review(desk: ReviewDesk, port: int) -> Iterator[LocalServer]:
    """Bind a port; 0 picks a free one.

    Raises
    ------
    UserInputError
        If there is no draft.
    PrerequisiteError
        If the port is taken.
    """
    desk.project.need()
    with prepare_server(lambda serving: create_app(desk, serving), desk.secret, port) as ready:
        yield ready
