"""A figure's SVG made part of a page: it takes the page's colours and letters, and its ids stay its own."""

from __future__ import annotations

import re

from tasks.publish.report.figures import INK, LINE, PALETTE, QUIET

_COLOURS = {
    INK: "var(--text)",
    QUIET: "var(--muted)",
    LINE: "var(--line)",
    **{colour: f"var(--e{place})" for place, colour in enumerate(PALETTE)},
}


def inline_svg(svg: bytes, name: str, label: str) -> str:
    """Return the drawing as an element of a page.

    Parameters
    ----------
    svg
        A file that matplotlib wrote; text in it is escaped already.
    name
        A word that no other figure of the page has.
    label
        What a reader hears who does not see it.
    """
    text = svg.decode("utf-8")
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"\bid=\"([^\"]+)\"", rf'id="{name}-\1"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", text)
    text = re.sub(r"(xlink:href|href)=\"#([^\"]+)\"", rf'\1="#{name}-\2"', text)
    # only in styles: a label may hold such letters
    text = re.sub(r'style="([^"]*)"', lambda found: f'style="{_themed(found[1])}"', text)
    size = re.search(r'viewBox="0 0 ([\d.]+)', text)
    # letters of 12 px where there is room; on a phone they shrink, but no further than can be read
    width = float(size[1]) if size else 400.0
    limits = f"max-width: {1.5 * width:.0f}px; min-width: {1.15 * width:.0f}px"
    quoted = label.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    opened = f'<svg role="img" aria-label="{quoted}" class="figure" style="{limits}"'
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    return text.replace("<svg", opened, 1)


def _themed(style: str) -> str:
    for colour, variable in _COLOURS.items():
        style = style.replace(colour, variable)
    return re.sub(r"font-family: [^;]*;? ?", "", style)
