"""The model server check of ``slvmeval doctor``: one small request of the kind each server is used for."""

from __future__ import annotations

import base64
import io
import json
import time
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from infra.profile import Profile
from infra.serving import server_path
from infra.vllm import VLLM_MODELS, Asks
from slvmeval.cli.doctor.finding import CheckVerdict, Finding, one_line, store_path
from storage_schemas.errors import PrerequisiteError, SlvmevalError
from storage_schemas.first_of_many import first_names
from tasks.llm.servers import WITHOUT_LIST, ChatServer, HttpStatus, Servers, entry_of, list_models, why
from tasks.llm.vision_models import VLM_MODELS

#: Seconds that a server may take to answer, including reasoning and initial compilation.
PATIENCE_S = 120.0
_MAX_TOKENS = 2048
#: Side of the picture in pixels, and its colour.
_SIDE, _RED = 64, (200, 20, 20)


def check_model_servers(site: Profile, ask: bool) -> Iterator[Finding]:
    """Check every model server of the profile, and those announced in the store.

    Parameters
    ----------
    ask
        Whether to send a request in addition to listing the models.
    """
    store = store_path(site)
    servers = Servers(site.model_servers, store)
    announced = sorted(path.stem for path in server_path(store, "*").parent.glob("*.json"))
    for name in dict.fromkeys([*site.model_servers, *announced]):
        advice = f"start that server, or change {entry_of(name)} in {site.label}"
        if name not in site.model_servers:
            advice = f"if its job has ended, remove {server_path(store, name)}"
        yield check_model_server(name, servers, advice, ask)


def check_model_server(name: str, servers: Servers, advice: str, ask: bool) -> Finding:
    """Check that a server lists its models, and that the model in use answers a request."""
    what = f"server {name}"
    unlisted = ""
    try:
        server = servers.find(name, "")
        try:
            models = list_models(server)
        except HttpStatus as problem:
            if problem.code not in WITHOUT_LIST or not server.model:
                raise
            models, unlisted = [server.model], f", but it does not list its models ({why(problem)})"
    except PrerequisiteError as problem:
        return Finding(what, CheckVerdict.FAIL, one_line(str(problem)))
    except (OSError, ValueError) as problem:
        message = f"{server.base}/models does not answer properly ({why(problem)}): {advice}"
        return Finding(what, CheckVerdict.FAIL, message)
    listed = _listed(models)
    if server.model and server.model not in models:
        message = f"it serves {listed}, but not {server.model}: {advice}"
        return Finding(what, CheckVerdict.FAIL, message)
    serves = f"{server.base.removesuffix('/v1')} serves {listed}"
    model = server.model or _used(name, models)
    if not ask or not models:
        return Finding(what, CheckVerdict.UNSEEN, f"{serves}; no request was sent")
    if model is None:
        message = f"{serves}; no request was sent, name the model to ask: model = … in {entry_of(name)}"
        return Finding(what, CheckVerdict.UNSEEN, message)
    patience = {"model": model, "patience_s": 0.0, "timeout_s": min(server.timeout_s, PATIENCE_S)}
    kind = kind_of(name, model)
    try:
        seconds, answer, mistake = _answer(server.model_copy(update=patience), kind)
    except (_NoAnswer, SlvmevalError, RuntimeError) as reason:
        message = f"{serves}, but {model} did not answer {_SENT[kind]}: {one_line(str(reason))}"
        return Finding(what, CheckVerdict.FAIL, message)
    message = f"{serves}; {model} answered {_SENT[kind]} in {seconds:.1f} s: {answer}"
    if mistake or unlisted:
        return Finding(what, CheckVerdict.WARN, ", ".join(filter(None, [message, mistake])) + unlisted)
    return Finding(what, CheckVerdict.OK, message)


class _NoAnswer(Exception):
    """The server rejected the request."""


_SENT: dict[Asks | Literal["clip"], str] = {
    "chat": "a question",
    "images": "a question about a picture",
    "embeddings": "a request for an embedding",
    "clip": "a request for a picture's embedding",
}


def kind_of(name: str, model: str) -> Asks | Literal["clip"]:
    """Return the kind of a server's requests, judged by its model, its name, or words in the model's name."""
    served = VLLM_MODELS.values()
    known: dict[str, Asks] = {one.repository: one.asks for one in served}
    known |= {one.model: "images" for one in VLM_MODELS.values()}
    if model in known:
        return known[model]
    words = model.lower()
    if "clip" in words:
        return "clip"
    by_server = next((one.asks for one in served if one.server == name), None)
    if by_server is not None:
        return by_server
    return "embeddings" if "embed" in words else "images" if "-vl" in words else "chat"


def _used(name: str, models: Sequence[str]) -> str | None:
    """Return the server's model that evaluators use; None if unknown."""
    if len(models) == 1:
        return models[0]
    users = [one.repository for one in VLLM_MODELS.values() if one.server == name]
    # the last model of a paid server is the cheapest
    users += reversed([one.model for one in VLM_MODELS.values() if one.server == name])
    return next((model for model in users if model in models), None)


def _listed(models: Sequence[str], most: int = 5) -> str:
    """Return the names of some models, as providers list dozens."""
    return first_names(models, most) or "no models"


def _answer(server: ChatServer, kind: Asks | Literal["clip"]) -> tuple[float, str, str]:
    """Send one request; return its seconds, the answer in words, and what is wrong with it, if anything."""
    if kind == "embeddings":
        return _embedding(server)
    if kind == "clip":
        return _clip(server)
    return _chat(server, picture=kind == "images")


def _embedding(server: ChatServer) -> tuple[float, str, str]:
    from tasks.llm.embeddings import EmbeddingsClient, Refused

    try:
        embedded = EmbeddingsClient(server).embed(["A red ball lies on the beach."])
    except Refused as problem:
        raise _NoAnswer(str(problem)) from problem
    return embedded.seconds, f"{embedded.rows.shape[1]} numbers", ""


def _clip(server: ChatServer) -> tuple[float, str, str]:
    import numpy as np

    from tasks.models.clip import ServedClip

    started = time.monotonic()
    rows = ServedClip(server).images(np.full((1, _SIDE, _SIDE, 3), _RED, np.uint8))
    return time.monotonic() - started, f"{rows.shape[1]} numbers", ""


def _chat(server: ChatServer, picture: bool) -> tuple[float, str, str]:
    """Ask for one of a few words by a JSON Schema, as judges and the caption analysis do."""
    from tasks.llm.answers import UnusableAnswer, objects
    from tasks.llm.chat import ChatClient
    from tasks.llm.exchange import ChatRequest, Sampling
    from tasks.llm.json_answers import value_in
    from tasks.llm.questions import whole_text

    words, right = (("red", "green", "blue"), "red") if picture else (("yes", "no"), "yes")
    asked = "What is the colour of this picture?" if picture else "Is seven more than three?"
    form = " or ".join(json.dumps({"answer": word}) for word in words)
    text = f"{asked} Answer with {form}."
    parts: list[dict[str, Any]] = [
        {"type": "text", "text": text},
        {"type": "image_url", "image_url": {"url": _red_picture()}},
    ]
    schema = objects({"answer": {"type": "string", "enum": list(words)}})
    client = ChatClient(server)
    try:
        answer = client.ask(
            ChatRequest(
                messages=({"role": "user", "content": parts if picture else text},),
                answer_schema=schema,
                sampling=Sampling(most_tokens=_MAX_TOKENS),
            )
        )
    finally:
        client.close()
    if answer.error is not None:
        raise _NoAnswer(answer.error)
    shown = repr(answer.text[:80])
    try:
        _, said = whole_text(answer, _MAX_TOKENS, "tolerant")
        word = value_in(said, schema).value["answer"]
    except UnusableAnswer as problem:
        return answer.seconds, shown, str(problem)
    except (ValueError, LookupError, TypeError):
        return answer.seconds, shown, "which does not match the JSON Schema in the request"
    return answer.seconds, str(word)[:80], "" if word == right else "which is wrong"


def _red_picture() -> str:
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (_SIDE, _SIDE), _RED).save(file, "JPEG")
    return "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode("ascii")
