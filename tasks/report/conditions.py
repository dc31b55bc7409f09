"""The conditions of a published accuracy, and those under which an evaluator was judged here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from storage_schemas.judgements import Judgement
from tasks.llm.printed_prompts import AS_PRINTED
from tasks.llm.vision_models import VLM_MODELS
from tasks.recipe import BUILT_IN, recipe_from
from tasks.report.judged_release import JudgedRelease
from tasks.report.table import Column, Table
from tasks.statistics.trials import Who
from tasks.votes.release_votes import PEOPLE, filtered_from

_PAPER = "paper"
#: Fields of a recipe that no pixel and no choice of the paper depends on.
_FREE = frozenset({"name", "seed"})


@dataclass(frozen=True)
class Condition:
    """One condition of a published value.

    Parameters
    ----------
    what
        Such as ``wording``.
    published, here
        In words.
    same
        Whether they are the same; None if that is unknown.
    """

    what: str
    published: str
    here: str
    same: bool | None


def conditions_of(gathered: JudgedRelease, who: Who, system: str) -> list[Condition]:
    """Return the conditions of SLVMEval's accuracies, next to those of an evaluator here.

    Parameters
    ----------
    system
        The evaluator's name in published values.
    """
    of_release = [_recipe(gathered), _data(gathered), _filter(gathered)]
    if who == PEOPLE:
        return [*of_release, protocol_of(gathered)]
    rows = [row for row in gathered.rows if (row.evaluator, row.settings) == who and row.answered]
    return [*of_release, *_of_judge(rows, system)]


def protocol_of(gathered: JudgedRelease) -> Condition:
    """Return under which protocol people answered."""
    votes = () if gathered.people is None else gathered.people.votes
    here = sorted({vote.protocol for vote in votes})
    same = None if not here or "" in here else here == [_PAPER]
    return Condition("people's protocol", _PAPER, _listed(here), same)


def _recipe(gathered: JudgedRelease) -> Condition:
    ours = recipe_from(gathered.release.recipe)
    theirs = BUILT_IN[_PAPER]
    one, other = ours.model_dump(mode="json"), theirs.model_dump(mode="json")
    differs = [key for key in one if key not in _FREE and one[key] != other[key]]
    here = ours.name + (f" (differs in {', '.join(differs)})" if differs else "")
    return Condition("recipe", _PAPER, here, not differs)


def _data(gathered: JudgedRelease) -> Condition:
    sources = gathered.release.sources()
    adapters = sorted({source.adapter for source in sources})
    here = f"{len(sources):,} sources by {', '.join(adapters)}"
    return Condition("data", "long videos of Vript", here, False if adapters != ["vript"] else None)


def _filter(gathered: JudgedRelease) -> Condition:
    made = filtered_from(gathered.release) is not None
    return Condition("filter", "pairs that passed", "pairs that passed" if made else "all pairs", made)


def _of_judge(rows: list[Judgement], system: str) -> Iterator[Condition]:
    expected = VLM_MODELS.get(system.rpartition("-")[0])
    if expected is not None:
        models = sorted({row.model for row in rows})
        yield Condition("model", expected.model, _listed(models), models == [expected.model])
    wordings = sorted({row.prompts for row in rows} - {""})
    if wordings:
        same = all(wording.startswith(AS_PRINTED) for wording in wordings)
        yield Condition("wording", AS_PRINTED, _listed(wordings), same)
    sent = _sent(row.details for row in rows)
    if sent:
        wanted = _WANTED_ALL if expected is not None and expected.frames == "all" else _WANTED_CLIPS
        yield Condition("frames sent", wanted, _listed(sent), sent == [wanted])


_WANTED_ALL, _WANTED_CLIPS = "all", "the centre of each clip"
_POLICIES: Mapping[str, str] = {"all": _WANTED_ALL, "clips": _WANTED_CLIPS}


def _sent(details: Iterable[str]) -> list[str]:
    found = set()
    for text in details:
        value: Any = json.loads(text) if '"frames"' in text else {}
        choices = value.get("frames")
        for choice in choices if isinstance(choices, list) else ():
            used = choice.get("used") if isinstance(choice, Mapping) else None
            if isinstance(used, str):
                found.add(_POLICIES.get(used, used))
    return sorted(found)


def _listed(names: list[str]) -> str:
    return ", ".join(name or "unknown" for name in names) or "unknown"


def conditions_table(title: str, held: Mapping[str, list[Condition]]) -> Table:
    """Return the conditions of each evaluator that is compared; conditions that all share are listed once."""
    columns = (
        Column("what", "condition"),
        Column("evaluator", "evaluator"),
        Column("published", "published"),
        Column("here", "here"),
        Column("same", "same"),
    )
    rows = []
    every = list(held.values())
    for one in every[0] if every else ():
        if len(every) > 1 and all(one in some for some in every):
            rows.append(_row("all", one))
    shared = {row["what"] for row in rows}
    rows += [_row(name, one) for name, some in held.items() for one in some if one.what not in shared]
    note = "A verdict is about the paper's claim only where all conditions are the same."
    return Table("against-conditions", f"Conditions, against {title}", columns, tuple(rows), note)


def _row(evaluator: str, one: Condition) -> dict[str, str]:
    same = {True: "yes", False: "no", None: "unknown"}[one.same]
    shown = {"published": one.published, "here": one.here, "same": same}
    return {"what": one.what, "evaluator": evaluator, **shown}
