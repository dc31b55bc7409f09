"""Analyse a source's captions in a process of its own: ``analyse_source.py STORE SOURCE URL CONCURRENCY``."""

from __future__ import annotations

import sys
from pathlib import Path

from storage_schemas.model import ModelServer
from storage_schemas.source import Source
from storage_schemas.store import Store
from tasks.captions.analyser import AnalyserRecipe
from tasks.captions.stage import source_analyses
from tasks.llm.servers import Servers

if __name__ == "__main__":
    store, source, url, concurrency = sys.argv[1:]
    named = {"caption-analysis": ModelServer(url=url, concurrency=int(concurrency))}
    source_analyses(
        Store.open(Path(store)),
        Source.model_validate_json(Path(source).read_text()),
        AnalyserRecipe(name="llm", parameters={"model": "tiny"}),
        Servers(named),
    )
