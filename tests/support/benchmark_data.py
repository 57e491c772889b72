"""The public data sets: tests marked so run where the folder named by GAIFMAN_DATA is there, and nowhere else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

DATA = Path(os.environ.get("GAIFMAN_DATA", "nowhere"))
NEEDED = [
    pytest.mark.data,
    pytest.mark.skipif(not DATA.is_dir(), reason="GAIFMAN_DATA names no folder"),
]
