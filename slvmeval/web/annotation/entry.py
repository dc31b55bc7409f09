"""Entry and exit: links, consent, language, the completion code."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response

from slvmeval.web.annotation import problems
from slvmeval.web.annotation.pages.render import render
from slvmeval.web.annotation.pages.texts import instructed, texts
from slvmeval.web.annotation.problems import Problem
from slvmeval.web.annotation.prolific import MAX_TOKEN_LENGTH, PARAMETER
from slvmeval.web.annotation.security import address_of, too_many
from slvmeval.web.annotation.sessions import BrowserSession, language_for
from slvmeval.web.annotation.site import Site, site_of
from storage_schemas.errors import UserInputError
from tasks.annotation.campaign import Campaign, money
from tasks.annotation.desk.events import TOO_LATE
from tasks.annotation.desk.extras import Extra, ExtraKind
from tasks.annotation.desk.refusals import DeskRefusal, RefusalReason
from tasks.annotation.desk.workers import WorkerSession

router = APIRouter(prefix="/c/{campaign}")

#: Maximum length of a platform's identities and parameters.
_MAX_CHARACTERS = 200

#: Address at which Prolific accepts completion codes.
_PROLIFIC_DONE = "https://app.prolific.com/submissions/complete"
#: MTurk's assignment id while a worker only previews the task.
_NOT_TAKEN = "ASSIGNMENT_ID_NOT_AVAILABLE"


@router.get("/enter")
def enter(request: Request, campaign: str) -> Response:
    """Admit a worker by a link's token or a platform's parameters, and remove them from the address."""
    site = site_of(request)
    study = site.campaign(campaign)
    parameters = {name: value for name, value in request.query_params.items() if value}
    longest = {PARAMETER: MAX_TOKEN_LENGTH}
    if any(len(value) > longest.get(name, _MAX_CHARACTERS) for name, value in parameters.items()):
        raise Problem(400, RefusalReason.BAD_LINK.value, "this link was altered: open the one you were given")
    if not {"token", "PROLIFIC_PID", "workerId", PARAMETER} & set(parameters):
        return _without_link(site, request, study, mturk=parameters.get("assignmentId") == _NOT_TAKEN)
    who = address_of(request)
    wait_s = site.limiter.full("attempts", who, site.serving.attempts_a_minute)
    if wait_s:
        raise too_many(wait_s)
    try:
        worker = _entered(site, study, parameters, who)
    except (DeskRefusal, Problem) as refused:
        if refused.reason == RefusalReason.BAD_LINK:
            site.limiter.wait_s("attempts", who, site.serving.attempts_a_minute)
        raise
    language = worker.language or language_for(request, study)
    response = RedirectResponse(_after(worker), 303)
    site.sessions.start(response, campaign, worker.worker, language)
    return response


def _entered(site: Site, campaign: Campaign, parameters: dict[str, str], who: str) -> WorkerSession:
    """Return the worker named by the parameters; `who` is the address they come from."""
    name = campaign.name
    if token := parameters.get("token"):
        return site.desk.workers.enter(name, "link", token, token=token)
    if {PARAMETER, "PROLIFIC_PID"} & set(parameters):
        parameters = _from_prolific(site, name, parameters, who)
        identity = parameters["PROLIFIC_PID"]
        study, session = parameters.get("STUDY_ID", ""), parameters.get("SESSION_ID", "")
        return site.desk.workers.enter(name, "prolific", identity, study=study, session=session)
    _check_platform(site, "mturk")
    if parameters.get("assignmentId") == _NOT_TAKEN:
        raise _preview()
    _limit_new(site, name, "mturk", parameters["workerId"], who)
    study, session = parameters.get("hitId", ""), parameters.get("assignmentId", "")
    return site.desk.workers.enter(name, "mturk", parameters["workerId"], study=study, session=session)


def _from_prolific(site: Site, campaign: str, parameters: dict[str, str], who: str) -> dict[str, str]:
    """Return Prolific's ids: the signed ones, or those in the address if unsigned ids are allowed."""
    if "prolific-unsigned" in site.serving.platforms and "PROLIFIC_PID" in parameters:
        _limit_new(site, campaign, "prolific", parameters["PROLIFIC_PID"], who)
        return parameters
    _check_platform(site, "prolific")
    if token := parameters.get(PARAMETER):
        return site.prolific.ids(token)
    raise Problem(
        403,
        RefusalReason.BAD_LINK.value,
        "this link is not signed by Prolific: open the study from Prolific again",
    )


def _limit_new(site: Site, campaign: str, platform: str, identity: str, who: str) -> None:
    """Limit the new workers per minute from one address; known workers may return."""
    try:
        site.desk.workers.get(campaign, site.desk.workers.name_of(platform, identity))
    except (DeskRefusal, UserInputError):
        wait_s = site.limiter.wait_s("new", who, site.serving.new_a_minute)
        if wait_s:
            raise too_many(wait_s) from None


def _check_platform(site: Site, platform: str) -> None:
    if platform not in site.serving.platforms:
        raise Problem(
            403,
            problems.NO_PLATFORM,
            f"this study does not accept workers from {platform}: use the link that you were given",
        )


def _without_link(site: Site, request: Request, campaign: Campaign, mturk: bool) -> Response:
    """Handle a request without identity: use the cookie, or ask for the link's token."""
    if mturk:
        raise _preview()
    session = site.sessions.of(request, campaign.name)
    if session is not None:
        return RedirectResponse(f"/c/{campaign.name}/task", 303)
    language = language_for(request, campaign)
    page = render("enter", language, folder=site.serving.texts_folder, campaign=campaign)
    return Response(page, media_type="text/html")


def _preview() -> Problem:
    return Problem(
        403, problems.PREVIEW, "this is a preview: accept the task on the platform, then open it again"
    )


def _after(worker: WorkerSession) -> str:
    return f"/c/{worker.campaign}/{'task' if worker.consented else 'consent'}"


@router.get("/consent")
def consent_page(request: Request, campaign: str) -> Response:
    """Show the consent page."""
    site = site_of(request)
    session = site.session(request, campaign)
    settings = site.campaign(campaign)
    try:
        site.desk.queue.look(campaign, session.worker)
    except DeskRefusal as refused:
        if refused.reason not in TOO_LATE:
            raise
        return RedirectResponse(f"/c/{campaign}/done", 303)
    every = site.desk.campaigns.watch_s(campaign, shown=True).values()
    lengths = (min(every, default=0.0), max(every, default=0.0))
    pay = [money(settings.pay_for(seconds), settings.currency) for seconds in lengths]
    minutes = [f"{math.ceil(settings.expected_s(seconds) / 60)}" for seconds in lengths]
    return site.page(
        request,
        "consent",
        session,
        pay=" – ".join(dict.fromkeys(pay)),
        minutes="–".join(dict.fromkeys(minutes)),
        answer_pay=_answer_pay(site, settings),
    )


def _answer_pay(site: Site, settings: Campaign) -> str:
    """Return the pay for an answer's time, in words; empty without pay."""
    pay = site.desk.workers.answer_pay(settings.name)
    return money(pay, settings.currency) if pay else ""


@router.post("/consent")
def consent(
    request: Request,
    campaign: str,
    csrf: Annotated[str, Form(max_length=_MAX_CHARACTERS)] = "",
    agree: Annotated[str, Form(max_length=_MAX_CHARACTERS)] = "",
    language: Annotated[str, Form(max_length=_MAX_CHARACTERS)] = "",
) -> Response:
    """Store a worker's consent, and show the first task."""
    site = site_of(request)
    session = site.own(request, campaign, csrf)
    if agree != "yes":
        raise Problem(
            422,
            RefusalReason.NO_CONSENT.value,
            "you need to agree before your first task: check the box, or close the page",
            f"/c/{campaign}/consent",
        )
    language_code = _offered(site, campaign, language or session.language)
    site.desk.workers.consent(campaign, session.worker, language_code)
    return _on(site, session, language_code, f"/c/{campaign}/task")


@router.get("/question")
def question_page(request: Request, campaign: str) -> Response:
    """Show the question that comes before the first task, or continue."""
    site = site_of(request)
    session = site.session(request, campaign)
    words = texts(session.language, None, site.serving.texts_folder).words
    asked = site.desk.workers.question(campaign, session.worker, instructed(words))
    if asked is None:
        return RedirectResponse(f"/c/{campaign}/task", 303)
    return site.page(
        request,
        "question",
        session,
        pay=_answer_pay(site, site.campaign(campaign)),
        question_id=asked.id,
        tries=asked.tries,
        aspect=asked.aspect,
        choices=[words["aspects"][one]["instruction"] for one in asked.choices],
    )


@router.post("/question")
def answer_question(
    request: Request,
    campaign: str,
    csrf: Annotated[str, Form(max_length=_MAX_CHARACTERS)] = "",
    question: Annotated[str, Form(max_length=_MAX_CHARACTERS)] = "",
    choice: Annotated[int, Form(ge=0, le=1000)] = 1000,
) -> Response:
    """Store an answer to the question; it determines the next page."""
    site = site_of(request)
    session = site.own(request, campaign, csrf)
    words = texts(session.language, None, site.serving.texts_folder).words
    site.desk.workers.answer_question(campaign, session.worker, instructed(words), question, choice)
    # reloading the page must not send the answer again
    return RedirectResponse(f"/c/{campaign}/question", 303)


@router.post("/language")
def set_language(
    request: Request,
    campaign: str,
    csrf: Annotated[str, Form(max_length=_MAX_CHARACTERS)] = "",
    language: Annotated[str, Form(max_length=_MAX_CHARACTERS)] = "",
) -> Response:
    """Change the language of the pages; before consent it is stored only in the cookie."""
    site = site_of(request)
    session = site.own(request, campaign, csrf)
    language_code = _offered(site, campaign, language)
    worker = site.desk.workers.get(campaign, session.worker)
    if worker.consented:
        site.desk.workers.set_language(campaign, session.worker, language_code)
    return _on(site, session, language_code, _after(worker))


def _offered(site: Site, campaign: str, language: str) -> str:
    offered = site.campaign(campaign).languages
    if language not in offered:
        raise Problem(
            422, RefusalReason.BAD_VALUE.value, f"the pages are available in {', '.join(offered)}: choose one"
        )
    return language


def _on(site: Site, session: BrowserSession, language: str, target: str) -> Response:
    response = RedirectResponse(target, 303)
    site.sessions.keep(response, session, language=language)
    return response


@router.get("/done")
def done(request: Request, campaign: str) -> Response:
    """Show the completion code."""
    site = site_of(request)
    session = site.session(request, campaign)
    code = site.desk.workers.finish(campaign, session.worker)
    worker = site.desk.workers.get(campaign, session.worker)
    back = f"{_PROLIFIC_DONE}?{urlencode({'cc': code})}" if worker.platform == "prolific" else ""
    owed = site.earned(session)
    why = "" if owed["answered"] else "screened_out" if worker.check == "failed" else _late(owed["extras"])
    return site.page(request, "done", session, code=code, back=back, why=why)


def _late(extras: Sequence[Extra]) -> str:
    """Return the name of the text for workers who came or answered too late; empty for others."""
    paid = {one.kind for one in extras}
    return next((kind.value for kind in (ExtraKind.LATE_TASK, ExtraKind.LATECOMER) if kind in paid), "")
