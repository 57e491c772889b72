"""Call a function in a child process, by fork or spawn, and wait for what it returns."""

from __future__ import annotations

import ctypes
import multiprocessing
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from processes import PATIENCE, PR_SET_PDEATHSIG


def in_child(function: Callable[..., Any], *arguments: Any, method: str = "fork", timeout: float = PATIENCE) -> Any:
    """Return `function(*arguments)` of a child process; fail if it raises, crashes or does not end."""
    context: Any = multiprocessing.get_context(method)
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(theirs, function, arguments))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # from Python 3.12 on, for a fork beside threads
        process.start()
    theirs.close()
    try:
        assert ours.poll(timeout), f"the child did not answer within {timeout:g} s"
        done, result = ours.recv()
        assert done, result
        process.join(timeout)
        assert process.exitcode == 0, f"the child ended with {process.exitcode}"
        return result
    finally:
        ours.close()
        process.kill()
        process.join()


def _send(pipe: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    try:
        result = True, function(*arguments)
    except BaseException:
        result = False, traceback.format_exc()
    pipe.send(result)
    pipe.close()
