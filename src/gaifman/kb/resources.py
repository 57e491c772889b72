"""Objects that live as long as the immutable object they are made from."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class ResourceCache:
    """One object of each class, created on first use. Threads can share it.

    >>> cache = ResourceCache()
    >>> cache.get(list, lambda: [1]) is cache.get(list, lambda: [2])
    True
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._resources: dict[type, Any] = {}

    def get(self, kind: type[T], create: Callable[[], T]) -> T:
        """Return the resource of a class; the first call creates it, and others wait for it."""
        with self._lock:
            if kind not in self._resources:
                self._resources[kind] = create()
            resource: T = self._resources[kind]
            return resource
