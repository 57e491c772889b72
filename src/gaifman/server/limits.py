"""Limits of a server."""

from __future__ import annotations

from dataclasses import dataclass

from gaifman.config import check_int, check_positive
from gaifman.queries.engine import MIN_MEMORY_MB


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits of a server, per request and in total.

    >>> ServerLimits(seconds=2.5).seconds
    2.5
    """

    seconds: float = 10.0
    """Time limit of a request, including the time in the queue."""
    write_seconds: float = 10.0
    """Time in which a client must take some of its waiting output: 1,000 bytes per second. Others are disconnected."""
    max_rows: int = 1_000
    """Rows of a page, answers of a ranking and members of a neighbourhood."""
    max_body_bytes: int = 2_000_000
    """Size of a request's body."""
    max_concurrency: int = 16
    """Requests of one kind that run at the same time; additions run one by one."""
    max_queued: int = 64
    """Requests of one kind in the queue; further ones are refused."""
    max_open_requests: int = 512
    """Open requests of all kinds, including those still being received; further ones are refused."""
    max_query_memory_mb: int = 1_024
    """Memory of all queries to the database together, besides its tables; beyond it the disk is used. At least 64."""
    max_query_disk_mb: int = 4_096
    """Disk of all queries together; a query that needs more is stopped."""
    max_draws: int = 100
    """Neighbourhoods per tuple, for an average or to show."""
    max_members: int = 10_000
    """Members of all neighbourhoods of one request, and facts inside them."""
    max_candidates: int = 100_000
    """Candidates of a query with several variables."""
    max_radius: int = 3
    """Radius of a neighbourhood."""
    max_new_facts: int = 1_000
    """Facts that one request may add."""
    max_name_length: int = 1_000
    """Characters of a name that is added or searched."""

    def __post_init__(self) -> None:
        times = ("seconds", "write_seconds")
        for name in times:
            check_positive(f"ServerLimits.{name}", getattr(self, name), SERVER_MAXIMA[name])
        for name in (one for one in self.__slots__ if one not in times):
            minimum = MIN_MEMORY_MB if name == "max_query_memory_mb" else 1
            check_int(f"ServerLimits.{name}", getattr(self, name), minimum, SERVER_MAXIMA[name])


SERVER_MAXIMA = {
    "seconds": 86_400,
    "write_seconds": 86_400,
    "max_rows": 1_000_000,
    "max_body_bytes": 1_000_000_000,
    "max_concurrency": 1_000,
    "max_queued": 100_000,
    "max_open_requests": 100_000,
    "max_query_memory_mb": 100_000_000,
    "max_query_disk_mb": 100_000_000,
    "max_draws": 10_000,
    "max_members": 10_000_000,
    "max_candidates": 1_000_000_000,
    "max_radius": 100,
    "max_new_facts": 1_000_000,
    "max_name_length": 1_000_000,
}
"""Largest value of each setting of `ServerLimits`."""

DEFAULT_SERVER_LIMITS = ServerLimits()
