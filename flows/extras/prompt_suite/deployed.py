"""The Prefect flow of the deployment `prompts-slvmeval`."""

from __future__ import annotations

from flows.extras.prompt_suite.flow import PROMPTS
from flows.shell import deployed

prompts_slvmeval = deployed(PROMPTS, "prompts_slvmeval", __name__)
