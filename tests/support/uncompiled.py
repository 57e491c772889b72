"""Scripts run compiled and uncompiled, to compare the two."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from processes import run


def both(script: str) -> tuple[Any, Any]:
    """The JSON that a script prints: as it is, and with NUMBA_DISABLE_JIT=1, which makes kernels plain Python."""
    return printed(script), printed(script, NUMBA_DISABLE_JIT="1")


def printed(script: str, **more: str) -> Any:
    """The JSON that a script prints; it can import what tests can."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | more
    words = [sys.executable, "-c", script]
    done = run(words, env=environment, check=True)
    return json.loads(done.stdout)
