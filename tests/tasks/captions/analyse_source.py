"""Analyse a source's captions in a process of its own for each line ``[STORE, SOURCE, URL, CONCURRENCY]``."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

# else each copy would load it
import openai  # noqa: F401

from storage_schemas.model import ModelServer
from storage_schemas.source import Source
from storage_schemas.store import Store
from tasks.captions.analyser import AnalyserRecipe
from tasks.captions.stage import source_analyses
from tasks.llm.servers import Servers

if __name__ == "__main__":
    for line in sys.stdin:
        store, source, url, concurrency = json.loads(line)
        child = os.fork()
        if not child:
            source_analyses(
                Store.open(Path(store)),
                Source.model_validate_json(Path(source).read_text()),
                AnalyserRecipe(name="llm", parameters={"model": "tiny"}),
                Servers({"caption-analysis": ModelServer(url=url, concurrency=concurrency)}),
            )
            os._exit(0)
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
