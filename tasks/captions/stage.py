"""Caption analysis of a whole source, stored as an artifact so that it is done only once."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import TypeAdapter, ValidationError

from storage_schemas.analysis import ANALYSES, CaptionAnalysis, CaptionAnswer
from storage_schemas.commit import write_atomic
from storage_schemas.errors import IntegrityError, Reason, SetAside, UserInputError
from storage_schemas.ids import artifact_id, digest_text, digest_value
from storage_schemas.json_checksum import read_checked_json, with_checksum
from storage_schemas.model import Frozen
from storage_schemas.parquet import read_table, write_rows
from storage_schemas.provenance import provenance
from storage_schemas.source import Source
from storage_schemas.store import ANALYSIS, Store
from storage_schemas.value_problems import value_problem
from tasks.captions.analyser import AnalyserRecipe, AnswerJournal, CaptionAnalyser, NotAnalysed, write_answers
from tasks.llm.servers import Servers

log = logging.getLogger(__name__)

ANALYSIS_FILE = "analyses.parquet"
ANSWERS_FILE = "answers.parquet"
_LIST = TypeAdapter(tuple[CaptionAnalysis, ...])
#: Captions that one task analyses: 14 s by rules, so that a long source does not delay others.
PART = 128


class _Part(Frozen):
    analyses: tuple[CaptionAnalysis, ...]


class Unfinished(Exception):
    """Captions are left to analyse: the next call continues."""


def _rules(parameters: Mapping[str, Any], servers: Servers | None) -> CaptionAnalyser:
    from tasks.captions.rules import RulesAnalyser

    if parameters:
        raise UserInputError("caption_analysis.parameters: the analyser 'rules' takes none")
    return RulesAnalyser()


def _llm(parameters: Mapping[str, Any], servers: Servers | None) -> CaptionAnalyser:
    from tasks.captions.llm import LlmAnalyser, LlmParameters

    try:
        return LlmAnalyser(LlmParameters.model_validate(dict(parameters)), servers)
    except ValidationError as problem:
        first = problem.errors()[0]
        where = ".".join(["caption_analysis", "parameters", *map(str, first["loc"])])
        names = ", ".join(LlmParameters.model_fields)
        why = f"{where}: {value_problem(first)}"
        raise UserInputError(f"{why} (the analyser 'llm' takes: {names})") from problem


#: Analyser constructors by name, called with parameters and servers.
ANALYSERS: Mapping[str, Callable[[Mapping[str, Any], Servers | None], CaptionAnalyser]] = {
    "rules": _rules,
    "llm": _llm,
}


def make_analyser(recipe: AnalyserRecipe, servers: Servers | None = None) -> CaptionAnalyser:
    """Create the caption analyser named in a recipe.

    Parameters
    ----------
    recipe
        The analyser's part of the recipe.
    servers
        Model servers; not needed to check a recipe.

    Raises
    ------
    UserInputError
        If the name or the parameters are not valid.
    """
    if recipe.name not in ANALYSERS:
        raise UserInputError(
            f"caption_analysis.name: no analyser {recipe.name!r}, choose: {', '.join(ANALYSERS)}"
        )
    return ANALYSERS[recipe.name](recipe.parameters, servers)


def analysis_consumes(source: Source, recipe: AnalyserRecipe) -> dict[str, Any]:
    """Return the inputs of the analysis of a source's captions."""
    captions = [clip.caption for clip in source.clips]
    return {"analyser": _consumes(recipe.model_dump_json()), "captions": digest_value(captions)}


@lru_cache(maxsize=8)
def _consumes(recipe: str) -> dict[str, Any]:
    return make_analyser(AnalyserRecipe.model_validate_json(recipe)).consumes()


def is_analysed(store: Store, source: Source, recipe: AnalyserRecipe) -> bool:
    """Return whether the captions of a source were analysed so already."""
    return store.has(ANALYSIS, artifact_id(ANALYSIS, analysis_consumes(source, recipe)))


def source_analyses(
    store: Store,
    source: Source,
    recipe: AnalyserRecipe,
    servers: Servers | None = None,
    bounded: bool = False,
) -> tuple[CaptionAnalysis, ...]:
    """Return the analysis of each clip's caption, in clip order; analyse them if they are not, or damaged.

    They are analysed in parts of `PART` captions, each kept until all are.

    Parameters
    ----------
    bounded
        Analyse one part only.

    Raises
    ------
    Unfinished
        If `bounded`, and more parts are left.
    SetAside
        If a caption cannot be analysed (`caption_not_analysed`); the answers about the others are kept.
    PrerequisiteError
        If a dependency of the analyser is missing; earlier answers are kept.
    """
    consumes = analysis_consumes(source, recipe)
    id_ = artifact_id(ANALYSIS, consumes)
    if store.has(ANALYSIS, id_):
        try:
            return read_analyses(store, id_)
        except IntegrityError as problem:
            store.discard(ANALYSIS, id_, problem)
    with AnswerJournal(store.partial_analyses / id_) as journal:
        analyser = make_analyser(recipe, servers)
        analyses = _in_parts(store.partial_analyses / id_, source, analyser, journal, bounded)
        _keep(store, source, analyser, consumes, journal, analyses)
        journal.remove()
    return read_analyses(store, id_)


def _in_parts(
    folder: Path, source: Source, analyser: CaptionAnalyser, journal: AnswerJournal, bounded: bool
) -> tuple[CaptionAnalysis, ...]:
    """Return all analyses; with more than one part, each is a file of the folder until all are there."""
    captions = [clip.caption for clip in source.clips]
    starts = range(0, len(captions), PART)
    analyses: list[CaptionAnalysis] = []
    made = False
    for start in starts:
        file = folder / f"part-{start:06}.json"
        part = _part(file)
        if part is None:
            if made and bounded:
                raise Unfinished
            part = all_analysed(analyser.analyse(captions[start : start + PART], journal), source, start)
            if len(starts) > 1:
                file.parent.mkdir(parents=True, exist_ok=True)
                write_atomic(file, with_checksum(_Part(analyses=part).model_dump_json()))
            # one that names nothing costs nothing
            made = made or any(captions[start : start + PART])
        analyses += part
    return tuple(analyses)


def _part(file: Path) -> tuple[CaptionAnalysis, ...] | None:
    """Return a kept part; None if there is none or it is damaged."""
    try:
        return _Part.model_validate_json(read_checked_json(file)).analyses
    except FileNotFoundError:
        return None
    except (ValidationError, IntegrityError) as problem:
        log.warning("cannot read %s, analysing these captions again: %s", file, problem)
        return None


def _keep(
    store: Store,
    source: Source,
    analyser: CaptionAnalyser,
    consumes: Mapping[str, Any],
    journal: AnswerJournal,
    analyses: tuple[CaptionAnalysis, ...],
) -> None:
    started = time.monotonic()
    answers = journal.read()
    with store.stage(ANALYSIS, consumes) as staged:
        write_analyses(staged.path / ANALYSIS_FILE, source.id, analyser.name, analyses)
        if answers:
            clips = [(clip.index, answers.get(digest_text(clip.caption))) for clip in source.clips]
            rows = [(clip, answer) for clip, answer in clips if answer is not None]
            write_answers(staged.path / ANSWERS_FILE, source.id, rows)
        staged.content_checksum = digest_value([analysis.model_dump() for analysis in analyses])
        staged.content = {"clips": len(analyses)}
        staged.provenance = provenance(started, packages=analyser.packages, **_cost(answers))
    if answers:
        log.info("captions of %s: %s", source.title, staged.provenance["answers"])


def _cost(answers: Mapping[str, CaptionAnswer]) -> dict[str, Any]:
    """Return the answers' usage, for the provenance of an analysis that made requests."""
    if not answers:
        return {}
    every = answers.values()
    cost = {
        "captions": len(answers),
        "asked_again": sum(answer.tries > 1 for answer in every),
        "calls": sum(answer.calls for answer in every),
        "tokens_in": sum(answer.tokens_in or 0 for answer in every),
        "tokens_out": sum(answer.tokens_out or 0 for answer in every),
        "seconds": round(sum(answer.seconds for answer in every), 3),
        "served_as": sorted({answer.model for answer in every}),
    }
    return {"answers": cost}


def all_analysed(
    results: Sequence[CaptionAnalysis | NotAnalysed], source: Source, first: int = 0
) -> tuple[CaptionAnalysis, ...]:
    """Return the analyses of a source's captions from clip `first` on.

    Raises
    ------
    SetAside
        `caption_not_analysed` if one of them could not be analysed.
    """
    analyses = []
    for clip, result in enumerate(results, first):
        if isinstance(result, NotAnalysed):
            raise SetAside(
                Reason.CAPTION_NOT_ANALYSED, f"caption of clip {clip} of {source.title}: {result.message}"
            )
        analyses.append(result)
    return tuple(analyses)


def write_analyses(path: Path, source_id: str, analyser: str, analyses: tuple[CaptionAnalysis, ...]) -> None:
    """Write the analyses of a source's clips, one row a clip."""
    rows = [
        {"source_id": source_id, "clip": clip, "analyser": analyser, "analysis": analysis.model_dump_json()}
        for clip, analysis in enumerate(analyses)
    ]
    write_rows(path, ANALYSES, rows)


def read_analyses(store: Store, id_: str) -> tuple[CaptionAnalysis, ...]:
    """Read the stored analyses of a source's clips.

    Raises
    ------
    IntegrityError
        If they are damaged.
    """
    table = read_table(pa.BufferReader(store.read(ANALYSIS, id_, ANALYSIS_FILE)))
    texts = table.column("analysis").to_pylist()
    return _LIST.validate_json("[" + ",".join(texts) + "]")
