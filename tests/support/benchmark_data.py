"""The public data sets: tests with this mark run only if the folder GAIFMAN_DATA exists."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

DATA = Path(os.environ.get("GAIFMAN_DATA", "nowhere"))
NEEDED = [
    pytest.mark.data,
    pytest.mark.skipif(not DATA.is_dir(), reason="GAIFMAN_DATA names no folder"),
]
