"""Nothing that only Linux has is used when a module is imported: macOS can import all of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: Attributes of ``os``, ``signal``, ``socket`` and ``select`` that Linux has and macOS has not.
LINUX = {
    *("O_TMPFILE", "O_PATH", "O_DIRECT", "O_NOATIME", "O_LARGEFILE", "O_RSYNC"),
    *("sched_getaffinity", "memfd_create", "pipe2", "posix_fadvise", "posix_fallocate", "pidfd_open"),
    *("setresuid", "setresgid", "getrandom", "copy_file_range", "splice", "eventfd", "epoll"),
    *("SIGRTMIN", "SIGPWR", "SIGCLD", "SIGPOLL", "SO_PASSCRED", "F_OFD_SETLK", "F_ADD_SEALS"),
}


def at_import(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that run when a module is imported: all but the bodies of functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        yield node
        yield from at_import(node)


@pytest.mark.parametrize("room", ["storage_schemas", "tasks", "infra", "flows", "slvmeval"])
def test_imports_need_nothing_of_linux_alone(room: str) -> None:
    found = []
    for path in sorted((ROOT / room).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if not any(word in text for word in (*LINUX, "/proc")):
            continue
        for node in at_import(ast.parse(text)):
            name = node.attr if isinstance(node, ast.Attribute) else ""
            if name in LINUX:
                found.append(f"{path.relative_to(ROOT)}:{node.lineno} {name}")
            elif isinstance(node, ast.Call) and "/proc" in ast.dump(node) and "open" in ast.dump(node.func):
                found.append(f"{path.relative_to(ROOT)}:{node.lineno} /proc")
    assert found == []


def test_at_import_finds_a_planted_use() -> None:
    tree = ast.parse("import os\nFLAGS = os.O_PATH\ndef f():\n    return os.O_TMPFILE\n")
    names = [node.attr for node in at_import(tree) if isinstance(node, ast.Attribute)]
    assert names == ["O_PATH"]
