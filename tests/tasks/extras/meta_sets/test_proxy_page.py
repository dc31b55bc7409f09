"""The proxy study's page: both rankings as a table and a scatter, with ρ, and hostile names as text."""

from __future__ import annotations

import re

from tasks.extras.meta_sets.proxy_page import correlation_text, proxy_files, proxy_table
from tasks.extras.meta_sets.proxy_result import ProxyResult, ProxyRow
from tasks.statistics.cells import cell_of
from tasks.statistics.correlations import Correlation, spearman
from tasks.statistics.trials import Trial, TrialPair
from tests.tasks.report.latex_source import environments

HOSTILE = "<b>x</b> & $y_1$"
#: Right answers of ten in the settings generated and degraded.
RIGHT = {"good": (9, 10), HOSTILE: (7, 6), "fair": (6, 8), "coin": (5, 5)}


def result(right: dict[str, tuple[int, int]], ranked: bool = True) -> ProxyResult:
    def cell(name: str, count: int):  # type: ignore[no-untyped-def]
        pairs = [TrialPair(f"p{place}", f"s{place}", "comprehensiveness", 8.0) for place in range(10)]
        answers = ["high" if place < count else "low" for place in range(10)]
        return cell_of(
            [Trial(name, "", pair, "apart", 0, answer) for pair, answer in zip(pairs, answers, strict=True)]  # type: ignore[arg-type]
        )

    ranks = [
        {name: float(place) for place, name in enumerate(sorted(right, key=lambda one: -right[one][side]), 1)}
        for side in (0, 1)
    ]
    rows = tuple(
        ProxyRow(
            name,
            "",
            cell(name, first),
            cell(name, second),
            *(rank[name] if ranked else None for rank in ranks),
        )
        for name, (first, second) in right.items()
    )
    values = list(right.values())
    correlation = spearman([one for one, _ in values], [other for _, other in values])
    return ProxyResult("FETV: alignment & <comprehensiveness>", rows, correlation)


def test_the_page_has_rho_the_scatter_and_the_table() -> None:
    files = proxy_files(result(RIGHT))
    assert sorted(files) == [f"proxy-study.{form}" for form in ("html", "md", "pdf", "svg", "tex")]
    page = files["proxy-study.html"].decode()
    assert "<dd>0.8000</dd>" in page
    assert "0.800 (p = 0.2, n = 4 evaluators)" in page
    assert "<b>x" not in page
    assert "&lt;b&gt;x&lt;/b&gt; &amp; $y_1$" in page
    assert "<comprehensiveness>" not in page
    drawing = page[page.index("<svg") : page.index("</svg>")]
    for name in ("good", "fair", "coin"):
        assert re.search(rf">{name}</text>", drawing)
    assert len(re.findall(r"<use", drawing)) >= len(RIGHT)
    assert environments(files["proxy-study.tex"].decode()) == ["longtable"]


def test_the_best_is_at_the_top_right_and_the_bytes_are_the_same_again() -> None:
    files = proxy_files(result(RIGHT))
    assert files == proxy_files(result(RIGHT))
    svg = files["proxy-study.svg"].decode()
    points = re.findall(r'<use xlink:href="#m\w+" x="([\d.]+)" y="([\d.]+)" style="fill: #1f5fae', svg)
    # in the order of the rows: good is first in both, coin last in both
    (best_x, best_y), *_, (last_x, last_y) = [(float(x), float(y)) for x, y in points]
    assert len(points) == len(RIGHT)
    assert best_x > last_x
    assert best_y < last_y


def test_evaluators_of_equal_ranks_keep_their_names() -> None:
    held = result({"one": (5, 5), "other": (5, 5)})
    rows = tuple(ProxyRow(row.evaluator, "", row.generated, row.degraded, 1.5, 1.5) for row in held.rows)
    page = proxy_files(ProxyResult("t", rows, Correlation(2, None, None)))["proxy-study.html"].decode()
    assert ">one</text>" in page
    assert ">other</text>" in page
    assert "not defined over n = 2 evaluators" in page


def test_without_ranks_the_page_says_so() -> None:
    files = proxy_files(result(RIGHT, ranked=False))
    assert "proxy-study.svg" not in files
    assert b"No evaluator has a rank in both settings." in files["proxy-study.html"]
    nothing = ProxyResult("t", (), Correlation(0, None, None))
    assert proxy_table(nothing).empty == "No evaluator answered."
    assert b"No evaluator answered." in proxy_files(nothing)["proxy-study.html"]
    assert correlation_text(nothing).startswith("Spearman's ρ is not defined over n = 0 evaluators")
