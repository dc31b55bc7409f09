"""Event alignment: events of the prompt and of the video's description, matched with the greatest weight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from storage_schemas.judgement import Failure
from tasks.evaluators.base import NotJudged
from tasks.suites.base import SuitePrompt
from tasks.suites.locot2v import events
from tasks.suites.locot2v.asking import Asker
from tasks.suites.locot2v.events import events_of_prompt, extract_events
from tasks.suites.locot2v.matching import FIELDS, match_events
from tasks.suites.locot2v.measure import Measure, Value
from tasks.suites.locot2v.overall_alignment import describe
from tasks.suites.locot2v.roles import Role
from tasks.suites.locot2v.texts import instruction
from tasks.suites.video_bench.frames import Film


class EventAlignment(Measure):
    """Mean worth of the matched events, less a penalty for their order; 0 where the video has no events."""

    roles: ClassVar[Sequence[Role]] = ("multimodal", "language")
    compares: ClassVar[bool] = True
    uses: ClassVar[frozenset[str]] = Measure.uses | {"most_events", "matching"}

    def told(self) -> Mapping[str, str]:
        """Return how the models are asked to describe and to find events."""
        return {
            "describe": instruction("describe", self.settings.prompts),
            "events": events.told(self.settings),
        }

    def value(self, asker: Asker, prompt: SuitePrompt, film: Film, repeat: int) -> Value:
        """Return how well the video's events fit the prompt's."""
        wanted = events_of_prompt(asker, prompt, self.settings)
        description = describe(asker, film, self.settings.prompts, repeat)
        seen = extract_events(asker, "events of the video", description, self.settings, repeat)
        told, *fields = asker.compare(
            [
                ([getattr(one, name) for one in wanted], [getattr(one, name) for one in seen])
                for name in ("event", *FIELDS)
            ]
        )
        found = match_events(told, np.stack(fields), self.settings.matching)
        if found.value is None:
            raise NotJudged(Failure.NO_ANSWER, "the prompt has no events")
        matches = [
            {
                "prompt": wanted[match.prompt_event].event,
                "video": seen[match.video_event].event,
                "events": [match.prompt_event, match.video_event],
                "description": match.description,
                "fields": match.fields,
            }
            for match in found.matches
        ]
        counts = {"prompt": len(wanted), "video": len(seen), "inversions": found.inversions}
        return Value(found.value, {"matches": matches, "counts": counts})
