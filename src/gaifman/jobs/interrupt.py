"""Graceful stop on Ctrl-C."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self


class InterruptHandler:
    """In its `with` block, the first Ctrl-C (or SIGTERM) asks to stop, and the second one stops.

    The work checks `stop_requested` between two blocks, writes its checkpoints and ends. The message is printed to
    standard error at the first signal.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self, message: str = "") -> None:
        self.message = message
        self.received: int | None = None
        """The signal that was received."""
        self._event = threading.Event()
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # other threads cannot handle signals
            for number in self.SIGNALS:
                # An ignored signal stays ignored: Ctrl-C must not stop a background job of a shell.
                if (previous := signal.getsignal(number)) not in (signal.SIG_IGN, None):
                    self._previous[number] = previous
                    signal.signal(number, self._handle)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, previous in self._previous.items():
            signal.signal(number, previous)
        self._previous.clear()

    def stop_requested(self) -> bool:
        """Return whether to stop; any thread may ask."""
        return self._event.is_set()

    def _handle(self, number: int, _: FrameType | None) -> None:
        if self._event.is_set():
            raise KeyboardInterrupt
        self.received = number
        self._event.set()
        if self.message:
            os.write(2, f"\n{self.message}\n".encode())  # not print: the signal may have interrupted it
