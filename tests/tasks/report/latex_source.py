"""Read LaTeX tables as cells, and check that they are well formed."""

from __future__ import annotations

import re


def environments(text: str) -> list[str]:
    """Give the environments of a LaTeX text, and check that they and all braces close."""
    text = re.sub(r"(?m)(?<!\\)%.*$", "", text)
    plain = re.sub(r"\\[{}\\]", "", text)
    depth = 0
    for sign in plain:
        depth += {"{": 1, "}": -1}.get(sign, 0)
        assert depth >= 0
    assert depth == 0
    open_: list[str] = []
    result = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+\*?)\}", text):
        if kind == "begin":
            open_.append(name)
            result.append(name)
        else:
            assert open_.pop() == name
    assert open_ == []
    return result


def columns_of(text: str) -> int:
    """Count the columns that a tabular declares, such as ``@{}l*{10}{c}@{}``."""
    declared = re.search(r"\\begin\{tabular\}\{(.*)\}$", text, re.MULTILINE)
    assert declared is not None
    plain = re.sub(r"@\{[^{}]*\}", "", declared[1])
    plain = re.sub(r"\*\{(\d+)\}\{(\w)\}", lambda found: int(found[1]) * found[2], plain)
    assert re.fullmatch("[lcr]+", plain)
    return len(plain)


def lines_of(text: str) -> list[list[str]]:
    """Give the cells of each line of a tabular; a multicolumn cell is followed by empty ones."""
    lines = []
    for line in text.splitlines():
        if line.endswith(r" \\"):
            cells: list[str] = []
            for cell in re.split(r"(?<!\\)&", line.removesuffix(r"\\")):
                spanned = re.fullmatch(r"\s*\\multicolumn\{(\d+)\}\{[^ ]*?\}\{(.*)\}\s*", cell)
                cells += [cell.strip()] if spanned is None else [spanned[2], *[""] * (int(spanned[1]) - 1)]
            lines.append(cells)
    return lines


def plain_text(cell: str) -> str:
    """Undo what the tables' cells are escaped and marked with."""
    cell = re.sub(r"\\(?:textbf|underline|textit)\{([^{}]*)\}", r"\1", cell)
    for sign, text in ((r"$\pm$", "±"), ("$-$", "-"), ("--", "–"), (r"\%", "%"), (r"\_", "_")):
        cell = cell.replace(sign, text)
    return cell
