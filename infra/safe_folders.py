"""Folders in which other users cannot replace what we put there."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from pathlib import Path

from storage_schemas.user import user_name

#: As many as Linux follows.
_MAX_LINKS = 40


def unsafe_folder(folder: str) -> str | None:
    """Return how other users could replace what we put into an existing folder, or None if they cannot.

    Every folder and link on its path must belong to this user or the system. A folder may be writable by
    others only if it is like ``/tmp``, where users cannot rename others' files.
    """
    path, parts = "/", [part for part in os.path.abspath(folder).split("/") if part]  # noqa: PTH100
    links = 0
    while True:
        status = os.lstat(path)
        if status.st_uid not in _trusted_owners():
            return f"{path} belongs to {user_name(status.st_uid)}"
        if stat.S_ISLNK(status.st_mode):
            links += 1
            if links > _MAX_LINKS:
                return f"{path} is a circular link"
            target = os.readlink(path)  # noqa: PTH115
            parts = [part for part in target.split("/") if part] + parts
            path = "/" if target.startswith("/") else os.path.dirname(path)  # noqa: PTH120
        elif _others_can_rename(status):
            return f"{path} can be written by other users"
        if not parts:
            return None
        part = parts.pop(0)
        path = os.path.dirname(path) if part == ".." else os.path.join(path, part)  # noqa: PTH118, PTH120


def _others_can_rename(status: os.stat_result) -> bool:
    writable = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if writable == stat.S_IWGRP and _only_member(status.st_gid):
        return False
    return bool(writable) and not status.st_mode & stat.S_ISVTX


def _only_member(gid: int) -> bool:
    """Return whether a group is a user's private group, which many systems create."""
    try:
        group, user = grp.getgrgid(gid), pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def _trusted_owners() -> set[int]:
    trusted = {0, os.getuid()}
    users = Path("/proc/self/uid_map")
    if users.exists() and users.read_text(encoding="utf-8").split() != ["0", "0", "4294967295"]:
        # in a container with few users, the system's files belong to a placeholder user
        trusted.add(int(Path("/proc/sys/kernel/overflowuid").read_text(encoding="utf-8")))
    return trusted
