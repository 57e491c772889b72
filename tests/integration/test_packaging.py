"""The wheel holds all that the package needs, and nothing else."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

from processes import run

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"


def test_the_wheel_holds_every_file_of_the_package(tmp_path: Path) -> None:
    run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)], cwd=ROOT, check=True)
    (wheel,) = tmp_path.iterdir()
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    files = (path for path in (SOURCE / "gaifman").rglob("*") if path.is_file() and path.parent.name != "__pycache__")
    assert held == {path.relative_to(SOURCE).as_posix() for path in files}
    assert {"gaifman/server/static/index.html", "gaifman/data/countries.facts", "gaifman/py.typed"} <= held
