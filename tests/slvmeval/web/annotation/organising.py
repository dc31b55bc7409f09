"""A week of votes by workers of all kinds, and an organiser who uses HTTP."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import httpx

from slvmeval.web.annotation.serve import organiser_secret
from storage_schemas.votes import Vote
from tasks.annotation.installation import installation_key
from tasks.annotation.pair_task import PairTask
from tests.slvmeval.web.annotation.conftest import Study
from tests.slvmeval.web.annotation.pieces import NAME, PAGE, client, hidden

ASPECTS = ("aesthetics", "color", "comprehensiveness", "dynamics_degree", "temporal_flow")
EVIL = "<script>document.title='owned'</script><img src=x onerror=alert(1)>\" onmouseover=\"alert(2) 'ひどい'"
HASTY = "badbadbadbadbadbadbadbadbadbadba"
CAREFUL = "0123456789abcdef0123456789abcdef"
#: Pages of a campaign.
PAGES = ("", "/workers", f"/workers/{HASTY}", f"/workers/{HASTY}/erase", "/record")


def votes_of_a_week(study: Study, pairs: list[PairTask], share: float = 0.7) -> list[Vote]:
    """Return votes of 20 workers over five days; `HASTY` is fast and wrong, and writes attacking comments."""
    draw = random.Random(5)
    people = [CAREFUL, *(f"{random.Random(number).getrandbits(128):032x}" for number in range(18))]
    made = []
    for number, pair in enumerate(pairs[: int(len(pairs) * share)]):
        for worker in [*draw.sample(people, 4), HASTY] if number % 2 else draw.sample(people, 5):
            hasty = worker == HASTY
            at = study.clock.now - timedelta(days=draw.randrange(5), hours=draw.uniform(0, 9))
            rating = draw.choice("CCCB") if hasty else draw.choice("AAAAAAAB")
            length = pair.high_s + pair.low_s
            values = {
                **{"campaign": NAME, "release": "demo", "version": 1, "platform": "prolific"},
                **{"pair_id": pair.pair_id, "source_id": pair.source_id, "aspect": pair.aspect},
                **{"vote_id": f"{number:04}-{worker[:8]}", "worker": worker, "rating": rating},
                "first": draw.choice(("high", "low")),
                "preferred": "low" if hasty or draw.random() < 0.05 else "high",
                "preference_s": 4.0 if hasty else 40.0,
                "total_s": length * (0.3 if hasty else draw.uniform(1.2, 4)),
                "watched_s": length * (0.3 if hasty else 1.0),
                "pair_duration_s": length,
                "comment": EVIL if hasty and number == 1 else "",
                "opened_at": (at - timedelta(minutes=3)).isoformat(),
                "at": at.isoformat(),
            }
            made.append(Vote.model_validate(values))
    return made


class Organiser:
    """An organiser who knows the secret."""

    def __init__(self, study: Study, name: str = "Aya") -> None:
        self.http = client(study.address, headers=PAGE)
        self.secret = organiser_secret(installation_key(study.root))
        self.name = name

    def log_in(self, **fields: str) -> httpx.Response:
        form = {"name": self.name, "secret": self.secret, **fields}
        return self.http.post("/organiser/login", data=form)

    def page(self, path: str = "") -> httpx.Response:
        """Return a page of the campaign."""
        return self.http.get(f"/organiser/c/{NAME}{path}")

    def post(self, path: str, csrf: str | None = None, **fields: Any) -> httpx.Response:
        """Send a form of a campaign page."""
        token = hidden(self.page("/record").text) if csrf is None else csrf
        return self.http.post(f"/organiser/c/{NAME}{path}", data={"csrf": token, **fields})

    def __enter__(self) -> Organiser:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()
