"""The core flows, deployed by ``infra/prefect.yaml``; Prefect workers import them from here."""

from __future__ import annotations

from flows.annotate.flow import ANNOTATE
from flows.release.flow import BUILD
from flows.score.evaluate_run import EVALUATE
from flows.score.suite_run import SUITE
from flows.shell import deployed

build_slvmeval = deployed(BUILD, "build_slvmeval", __name__)
evaluate_slvmeval = deployed(EVALUATE, "evaluate_slvmeval", __name__)
suite_slvmeval = deployed(SUITE, "suite_slvmeval", __name__)
annotate_slvmeval = deployed(ANNOTATE, "annotate_slvmeval", __name__)
