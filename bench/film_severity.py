"""How evaluators that understand nothing judge damage to free film: ``python -m bench.film_severity``.

Builds every aspect of the recipe `cpu-approx` from two films at several severities, lets the trivial
baselines and BRISQUE judge the pairs, and writes ``docs/results/``: a page, figures, every answer, and
submissions. Builds and judgements are kept: an interrupted run continues.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.films import BUNNY, CITY
from slvmeval.demo.fetch import fetch_demo, read_captions
from storage_schemas.commit import write_atomic
from storage_schemas.judgements import JudgementsStore
from storage_schemas.release import Release
from storage_schemas.store import Store
from tasks.aspects.registry import BUILT_IN as ASPECTS
from tasks.llm.usage import load_prices
from tasks.models.fetch import fetch_model
from tasks.publish.submission import Card, UsedPrices, check_submission, make_submission, submission_bytes
from tasks.report.judged_release import load_judged_release
from tasks.statistics.trials import Trial

ROOT = Path(__file__).resolve().parents[1]
EVALUATORS = ("duration", "size", "contrast", "sharpness", "motion", "scenes", "brisque", "coin")
STRENGTHS = ("weak", "medium")
#: The recipes require 30 s, more than the second film's length.
MIN_DURATION_S = 5
POINTS = {"right": 1.0, "tie": 0.5, "wrong": 0.0}


@dataclass(frozen=True)
class Film:
    """A film and its pairs: clips at the main point, other numbers of clips, seeds of the chosen draws."""

    name: str
    file: str
    title: str
    main: int
    clips: tuple[int, ...]
    seeds: tuple[int, ...]

    @property
    def points(self) -> tuple[str, ...]:
        """Severities in order: numbers of clips at full strength, then strengths at the main number."""
        return (*(str(clips) for clips in sorted((self.main, *self.clips))), *STRENGTHS)

    def release(self, seed: int) -> str:
        """Return the name of a draw's release."""
        return f"{self.name}-{seed}"

    def recipe(self, seed: int) -> str:
        """Return the recipe of a draw, as TOML."""
        return (
            f'base = "cpu-approx"\nname = "film-severity"\nseed = {seed}\nclips_per_pair = {self.main}\n'
            f"least_duration_s = {MIN_DURATION_S}\n\n"
            f"[severity]\nclips = {list(self.clips)}\nstrengths = {list(STRENGTHS)}\n"
        )


FILMS = (
    Film("bunny", BUNNY, "Big Buck Bunny: animation, 596 s, 60 clips", 5, (1, 2, 10), ()),
    Film("city", CITY, "cityCC0: a city at night, 7.6 s, 3 clips", 1, (2,), ()),
)


@dataclass(frozen=True)
class Answer:
    """One evaluator's answer on one pair."""

    film: str
    seed: int
    pair: str
    aspect: str
    point: str
    evaluator: str
    outcome: str


def slvmeval(*arguments: str | Path) -> None:
    """Run a command of the program; code 3 means that something was set aside, which the page counts."""
    # the console script's module, so that any checkout can be measured
    command = [sys.executable, "-m", "slvmeval", *map(str, arguments)]
    ended = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False)
    if ended.returncode not in (0, 3):
        raise SystemExit(f"{' '.join(command)} ended with {ended.returncode}")


def build(film: Film, folder: Path, workers: int) -> None:
    """Build and judge a film's draws."""
    demo = fetch_demo(folder / "demo")
    models = demo.u2netp.parent
    fetch_model("brisque", models)
    sources = folder / "films" / film.name
    sources.mkdir(parents=True, exist_ok=True)
    video = sources / film.file
    if not video.exists():
        os.link(demo.videos / film.file, video)
    captions = video.with_suffix(".jsonl")
    write_atomic(captions, read_captions(captions.name))
    site = ("--store", folder / "store", "--model-folder", models, "--workers", str(workers))
    site += ("--direct", "--quiet")
    for seed in film.seeds:
        recipe = folder / f"{film.release(seed)}.toml"
        write_atomic(recipe, film.recipe(seed).encode())
        release = film.release(seed)
        slvmeval("build", release, "-s", sources, "--recipe", recipe, *site)
        chosen = [word for name in EVALUATORS for word in ("-e", name)]
        slvmeval("evaluate", release, *chosen, *site)


def answers_of(film: Film, store: Store) -> list[Answer]:
    """Return every answer on a film's pairs."""
    found = []
    for seed in film.seeds:
        judged = load_judged_release(Release.open(store, film.release(seed)), EVALUATORS)
        found += [
            Answer(
                film.name,
                seed,
                trial.pair.pair_id,
                trial.pair.aspect,
                _point(film, trial),
                trial.evaluator,
                trial.outcome,
            )
            for trial in judged.all_trials
        ]
    return found


def _point(film: Film, trial: Trial) -> str:
    """Return a pair's severity: its strength if that is not the full one, else its number of clips."""
    strength = trial.pair.strength.removeprefix("custom-")
    return strength if strength in STRENGTHS else str(trial.pair.clips)


Cells = dict[tuple[str, str, str], list[Answer]]


def cells_of(answers: Sequence[Answer]) -> Cells:
    """Return answers by aspect, severity and evaluator."""
    cells: Cells = defaultdict(list)
    for answer in answers:
        cells[answer.aspect, answer.point, answer.evaluator].append(answer)
    return cells


def share(answers: Sequence[Answer]) -> float | None:
    """Return the share of right answers, ties counting half; None without an answer."""
    given = [POINTS[answer.outcome] for answer in answers if answer.outcome in POINTS]
    return sum(given) / len(given) if given else None


def draw(film: Film, cells: Cells, target: Path) -> None:
    """Draw a panel for each aspect: evaluators by severity, coloured by the share of right answers."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["font.size"] = 8
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(2, 5, figsize=(14, 5.6), sharey=True, layout="constrained")
    image = None
    for panel, aspect in zip(panels.flat, ASPECTS, strict=True):
        rows = [[share(cells.get((aspect, point, who), ())) for point in film.points] for who in EVALUATORS]
        values = [[float("nan") if value is None else value for value in row] for row in rows]
        image = panel.imshow(values, vmin=0, vmax=1, cmap="RdYlBu", aspect="auto")
        panel.set_facecolor("white")
        panel.set_title(aspect.replace("_", " "), fontsize=9)
        labels = [
            f"{point} clip{'s' * (point != '1')}" if point.isdigit() else point for point in film.points
        ]
        panel.set_xticks(range(len(labels)), labels, rotation=45, ha="right")
        panel.set_yticks(range(len(EVALUATORS)), EVALUATORS)
        for y, row in enumerate(rows):
            for x, value in enumerate(row):
                if value is not None:
                    colour = "white" if value < 0.2 or value > 0.85 else "black"
                    panel.text(
                        x, y, f"{100 * value:.0f}", ha="center", va="center", fontsize=6.5, color=colour
                    )
    assert image is not None
    figure.colorbar(image, ax=panels, shrink=0.7, label="share of draws answered rightly, ties half")
    figure.suptitle(f"{film.title}; draws: {len(film.seeds)}; empty: no such pair")
    figure.savefig(target.with_suffix(".png"), dpi=90, metadata={"Software": None})
    pyplot.close(figure)


def main_table(film: Film, cells: Cells) -> str:
    """Return the evaluators that distinguish the two sides at the main point in every draw, by aspect."""
    lines = ["| aspect | pairs | always right | always wrong | ties only |", "|---|---|---|---|---|"]
    for aspect in ASPECTS:
        main = {who: cells.get((aspect, str(film.main), who), []) for who in EVALUATORS if who != "coin"}
        pairs = max(map(len, main.values()), default=0)
        columns = []
        for outcome in ("right", "wrong", "tie"):
            found = [who for who, given in main.items() if given and {a.outcome for a in given} == {outcome}]
            columns.append(", ".join(found) or "–")
        lines.append(f"| {aspect} | {pairs} | {' | '.join(columns)} |")
    return "\n".join(lines) + "\n"


def least_table(film: Film, cells: Cells) -> str:
    """Return the minimum severity above which an evaluator is right in every draw, by aspect."""
    counts = [point for point in film.points if point.isdigit()]
    lines = ["| aspect | from 1 clip on | only with more clips | also at `weak` |", "|---|---|---|---|"]
    for aspect in ASPECTS:
        first: dict[str, str] = {}
        weak = []
        for who in EVALUATORS:
            if who == "coin":
                continue
            judged = [point for point in counts if cells.get((aspect, point, who))]
            for index, point in enumerate(judged):
                if all(share(cells[aspect, later, who]) == 1 for later in judged[index:]):
                    first[who] = point
                    break
            if share(cells.get((aspect, "weak", who), ())) == 1:
                weak.append(who)
        early = ", ".join(who for who, point in first.items() if point == counts[0]) or "–"
        late = ", ".join(f"{who} ({point})" for who, point in first.items() if point != counts[0]) or "–"
        lines.append(f"| {aspect} | {early} | {late} | {', '.join(weak) or '–'} |")
    return "\n".join(lines) + "\n"


def write_answers(answers: Sequence[Answer], path: Path) -> None:
    """Write every answer as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    fields = tuple(Answer.__dataclass_fields__)
    writer.writerow(fields)
    writer.writerows(sorted([getattr(answer, name) for name in fields] for answer in answers))
    write_atomic(path, text.getvalue().encode())


def write_submissions(film: Film, store: Store, out: Path) -> None:
    """Write and check each evaluator's answers on the first draw as a submission."""
    out.mkdir(parents=True, exist_ok=True)
    release = Release.open(store, film.release(film.seeds[0]))
    pairs = [record.pair_id for record in release.pairs()]
    prices = load_prices(None)
    for name in EVALUATORS:
        card = Card(
            name=name,
            authors=("the SLVMEval builder",),
            model=name,
            description="a baseline that understands nothing of a video",
        )
        rows = JudgementsStore(store).rows([name], pairs)
        used = UsedPrices(as_of=prices.as_of, source=prices.source)
        write_atomic(out / f"{name}.json", submission_bytes(make_submission(release, rows, card, used)))
        check_submission(out / f"{name}.json", release)


PAGE = """# Which aspects can be told apart without understanding?

The evaluators here understand nothing of a video: its length, five numbers of its frames, a coin, and
BRISQUE, a fitted measure of single pictures. They judge the ten aspects of the recipe `cpu-approx` on freely
licensed film. Where one is right in every draw, or wrong (then its opposite is right), that aspect's pairs
can be answered without looking at the content: compare a judge's accuracy with it.

`python -m bench.film_severity {command}` wrote this page, its figures, [every answer](answers.csv) and the
[submissions](submissions/) of the first draw; `make results` writes all pages of this folder. Equal inputs
give equal pairs on any machine, so `slvmeval submission check` can compare a submission with the release you
build.

## What follows from how pairs are made

- **One damaged clip is noticed as surely as ten.** Outside damaged clips both videos are identical, so a
  number over all frames differs by the damage alone, however short. The direction may change with the clips.
- **Length gives `comprehensiveness` away**: clips are removed, so the longer video is always better.
- **`temporal_flow` and `spatial_relationship` are ties** for frame statistics that ignore order or
  mirroring. Those that compare neighbours (motion, scenes) or see left and right (size, BRISQUE) differ, in
  a direction unrelated to quality.
- Always wrong is as informative as always right: styles add edges and contrast, so an evaluator that prefers
  these prefers the damaged side.

## Reading the tables

Each draw chooses other clips, and everything else that is random, from the film. The second table lists an
evaluator at the smallest number of clips above which it is right in every draw.

{films}
## Limits

- **Little film.** Draws of one film are not independent samples of film, and severities of one draw are
  nested, so the tables count draws without intervals. A coin is right in both of two draws one time in four:
  a single mark says little.
- **Classical operations replace diffusion**: salient-object removal with Telea's inpainting for
  `object_integrity`, a hue shift for `color`. They say nothing about Grounding DINO, Stable Diffusion or
  Qwen-Image-Edit, whose traces may differ. `background_consistency` has the small U²-Net and generated
  landscapes.
- **Captions** were written for this project and analysed by its rules.
- No language or vision-language model judged; their weights were not available.
"""

FILM = """## {title}

![{title}](severity-{name}.png)

{draws} draws, {main} degraded clip{plural}, full strength:

{main_table}
By number of clips ({points}), and `weak` at {main}:

{least_table}
{failed}"""


def page(films: Sequence[Film], answers: Sequence[Answer], command: str) -> str:
    """Return the page; `command` has the arguments that choose films and draws."""
    parts = []
    for film in films:
        own = [answer for answer in answers if answer.film == film.name]
        cells = cells_of(own)
        failed = sum(answer.outcome == "failed" for answer in own)
        parts.append(
            FILM.format(
                title=film.title,
                name=film.name,
                draws=len(film.seeds),
                main=film.main,
                plural="s" * (film.main != 1),
                points=", ".join(point for point in film.points if point.isdigit()),
                main_table=main_table(film, cells),
                least_table=least_table(film, cells),
                failed=f"{len({a.pair for a in own})} pairs, {len(own)} answers, {failed} failed.\n",
            )
        )
    return PAGE.format(command=command, films="\n".join(parts))


def main(arguments: Sequence[str] | None = None) -> int:
    """Build, judge and write."""
    parser = argparse.ArgumentParser(prog="python -m bench.film_severity", description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "results", help="films and store")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results")
    parser.add_argument("--workers", type=int, default=2)
    names = [film.name for film in FILMS]
    parser.add_argument("--film", action="append", choices=names, help="default: all; may be repeated")
    parser.add_argument("--draws", type=int, default=2, help="of each film")
    parser.add_argument(
        "--written", action="store_true", help="only write the page, from existing judgements"
    )
    chosen = parser.parse_args(arguments)
    folder, out = chosen.folder.resolve(), chosen.out.resolve()
    seeds = tuple(range(1, chosen.draws + 1))
    wanted = chosen.film or names
    films = [replace(film, seeds=seeds) for film in FILMS if film.name in wanted]
    if not chosen.written:
        for film in films:
            build(film, folder, chosen.workers)
    store = Store.open(folder / "store")
    answers = [answer for film in films for answer in answers_of(film, store)]
    out.mkdir(parents=True, exist_ok=True)
    for film in films:
        draw(film, cells_of([a for a in answers if a.film == film.name]), out / f"severity-{film.name}")
    write_answers(answers, out / "answers.csv")
    write_submissions(films[0], store, out / "submissions")
    command = " ".join([*(f"--film {name}" for name in wanted), f"--draws {chosen.draws}"])
    write_atomic(out / "README.md", page(films, answers, command).encode())
    print(out / "README.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
