"""Evaluators as the paper's tables show them: their names there, their groups, and the order of both."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from storage_schemas.judgements import Judgement
from tasks.report.judged_pairs import JudgedPairs
from tasks.statistics.trials import Who
from tasks.votes.release_votes import PEOPLE

#: Columns of tables 2, 5, 7 and 8 in the paper's order; other aspects follow them.
ASPECT_ORDER = (
    "aesthetics",
    "technical_quality",
    "appearance_style",
    "background_consistency",
    "object_integrity",
    "color",
    "dynamics_degree",
    "comprehensiveness",
    "spatial_relationship",
    "temporal_flow",
)
#: Rows in the paper's order, with their names there; a judge's name ends with its view of the videos.
_SHOWN = {
    "gpt-5": "GPT-5",
    "gpt-5-mini": "GPT-5-mini",
    "qwen3-vl": "Qwen3",
    "clipscore": "CLIPScore",
    "videoscore": "VideoScore",
    "human": "Human",
}
_POLICIES = {"ignore-max": "IgnMax", "each-truncate": "EachTrunc"}
_VIEWS = {"video": "Video-based", "text": "Text-based"}


@dataclass(frozen=True)
class System:
    """An evaluator as a row of the paper's tables.

    Parameters
    ----------
    published_name
        Name that a file of published values gives it: the evaluator's own, whatever its label, with the
        prompt policy if CLIPScore used another than the default (``clipscore?policy=ignore-max``).
    shown
        Name in the row.
    group
        Heading above its rows; empty for evaluators without a group.
    policy
        CLIPScore's prompt policy if it is not the default: such a row belongs to table 5.
    """

    who: Who
    published_name: str
    shown: str
    group: str
    policy: str = ""


def systems_of(gathered: JudgedPairs) -> list[System]:
    """Return the evaluators in the paper's order, those that the paper lacks before people."""
    policies, uses = _policies(gathered), _uses(gathered)
    systems = []
    for who, name in gathered.names.items():
        base, _, view = who[0].rpartition("-")
        group = _VIEWS.get(view, "") if base else ""
        stem = base if group else who[0]
        policy = policies.get(who, "")
        if policy:
            alone = list(policies.values()).count(policy) == 1
            shown = _POLICIES[policy] + ("" if alone else f" ({name})")
        else:
            # two settings of one evaluator differ in what follows its name
            shown = _SHOWN.get(stem, stem) + name[len(who[0]) :]
        published = f"clipscore?policy={policy}" if policy else uses.get(who, who[0])
        systems.append(System(who, published, shown, group, policy))
    return sorted(systems, key=_order)


def _order(system: System) -> tuple[int, int, str]:
    """Order by group, then as in the paper, then by name; policies separately."""
    if system.policy:
        return len(_VIEWS), list(_POLICIES).index(system.policy), system.shown
    headings = list(_VIEWS.values())
    if system.who == PEOPLE:
        return len(headings) + 1, 0, ""
    group = headings.index(system.group) if system.group else len(headings)
    stem = system.who[0].removesuffix("-video").removesuffix("-text") if system.group else system.who[0]
    names = list(_SHOWN)
    return group, names.index(stem) if stem in names else len(names), system.shown


def _uses(gathered: JudgedPairs) -> dict[Who, str]:
    """Return the own name of each evaluator, where it is known; its label may be another."""
    return {(row.evaluator, row.settings): row.use for row in gathered.rows if row.use}


def _policies(gathered: JudgedPairs) -> dict[Who, str]:
    """Return the prompt policy of each CLIPScore that did not use the default."""
    policies = {}
    for row in gathered.rows:
        who = row.evaluator, row.settings
        if row.answered and (row.use or row.evaluator).startswith("clipscore") and who not in policies:
            policies[who] = _policy(row)
    return {who: policy for who, policy in policies.items() if policy in _POLICIES}


def _policy(row: Judgement) -> str:
    value: Any = json.loads(row.details)
    for key in ("high", "prompt", "policy"):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, str) else ""


def ordered_aspects(aspects: list[str]) -> list[str]:
    """Return aspects in the paper's order, those that it lacks last."""
    return sorted(
        aspects, key=lambda name: ASPECT_ORDER.index(name) if name in ASPECT_ORDER else len(aspects) + 10
    )
