"""The limit of open files, which a driver of many workers must raise: each takes several connections."""

from __future__ import annotations

import logging
import resource

from infra.handshakes import MAX_UNFINISHED

log = logging.getLogger(__name__)

#: Connections of a driver to each of its workers (2.8 were measured with 350), and its other open files,
#: including unfinished handshakes of strangers.
FILES_A_WORKER, FILES_BESIDES = 3, 300 + MAX_UNFINISHED


def allow_workers(workers: int) -> int:
    """Raise this process's limit of open files as far as allowed; warn if the workers need more.

    Parameters
    ----------
    workers
        Maximum number of workers.

    Returns
    -------
    int
        The limit.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    wanted = workers * FILES_A_WORKER + FILES_BESIDES
    if hard != resource.RLIM_INFINITY and hard < wanted:
        log.warning(
            "this process may open %d files, but the %d workers of all pools need %d: raise the limit "
            "(`ulimit -Hn`, LimitNOFILE of a systemd unit), or lower `maximum` of the pools",
            hard,
            workers,
            wanted,
        )
    return hard
