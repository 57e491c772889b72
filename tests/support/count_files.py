"""Count the files that a command passes: the files of gaifman in which a function is called while it runs.

    python tests/support/count_files.py [--source src] [--names]

prints the counts for training, answering and explaining with the demo, and for one answer by HTTP, as JSON: of all
files, and of those in which Python runs. The others have only kernels, which numba reports to the profiler when Python
calls them; what they call themselves is not seen. Functions of all threads count; what runs while modules are imported
does not. `--names` prints the files, those of kernels apart.
"""

from __future__ import annotations

import argparse
import atexit
import importlib
import json
import os
import runpy
import signal
import sys
import tempfile
import threading
import urllib.request
from collections import defaultdict
from functools import partial
from pathlib import Path
from types import FrameType
from typing import IO

from processes import child, run

ROOT = Path(__file__).parents[2]
RELATION, QUERY, FIRST_QUERY = "borders", "borders('france', y)", "borders('italy', y)"
FACT = "borders('france', 'spain')"
COUNTED = "counted.json"
KINDS = (("python", True), ("kernels", False))
Files = dict[str, bool]
"""A file, and whether Python runs in it."""


class Profiler:
    """Collects the functions below a folder that are called, by file, while it is active."""

    def __init__(self, folder: Path, active: bool) -> None:
        self.active, self.functions = active, defaultdict[str, set[str]](set)
        self._prefix = f"{folder}{os.sep}"

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if (
            self.active
            and event == "call"
            and not code.co_name.startswith("<")
            and code.co_filename.startswith(self._prefix)
        ):
            self.functions[code.co_filename.removeprefix(self._prefix)].add(code.co_name)

    def files(self) -> Files:
        """The files, each with whether Python runs in it: not all of its called functions are compiled."""
        return {file: not all(map(partial(is_compiled, file), names)) for file, names in self.functions.items()}

    def start(self) -> None:
        """Watch this thread and all that start later."""
        threading.setprofile(self)
        sys.setprofile(self)


def is_compiled(file: str, name: str) -> bool:
    """Whether a function of a file of gaifman is a kernel."""
    module = sys.modules[".".join(("gaifman", *Path(file).with_suffix("").parts)).removesuffix(".__init__")]
    return hasattr(getattr(module, name, None), "py_func")


def count_command(source: Path, folder: Path, *words: str) -> Files:
    """The files that `gaifman …` passes."""
    run(launch(source, "--active", *words), cwd=folder, timeout=600, check=True)
    return counted(folder)


def count_request(source: Path, folder: Path, model: str) -> Files:
    """The files that an answer by HTTP passes. The server's start, its first answer and its end do not count."""
    with child(launch(source, "serve", "demo", model, "--port", "0", "--json"), cwd=folder) as process:
        url = json.loads(_line(process.stdout))["url"]
        ask(url, FIRST_QUERY)
        process.send_signal(signal.SIGUSR1)
        assert _line(process.stderr) == "counting\n"
        ask(url, QUERY)
        process.send_signal(signal.SIGUSR2)
        assert _line(process.stderr) == "counted\n"
    return counted(folder)


def ask(url: str, query: str) -> None:
    """One ranked answer by HTTP."""
    body = json.dumps({"query": query}).encode()
    request = urllib.request.Request(f"{url}api/answers", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request) as reply:
        assert json.load(reply)["answers"]


def launch(source: Path, *words: str) -> list[str]:
    """The words that run `gaifman …` through this file."""
    return [sys.executable, __file__, "--source", str(source), "--child", *words]


def counted(folder: Path) -> Files:
    """What the child wrote."""
    files: Files = json.loads((folder / COUNTED).read_text())
    return files


def _line(pipe: IO[str] | None) -> str:
    assert pipe is not None
    return pipe.readline()


def profile_command(source: Path, words: list[str]) -> None:
    """Run `gaifman …` in this process and write the files that it passes, from the start or from a signal on."""
    active = words[0] == "--active"
    profiler = Profiler(source / "gaifman", active)

    def begin(*_: object) -> None:
        profiler.active = True
        print("counting", file=sys.stderr, flush=True)

    def end(*_: object) -> None:
        profiler.active = False
        Path(COUNTED).write_text(json.dumps(profiler.files()))
        print("counted", file=sys.stderr, flush=True)

    signal.signal(signal.SIGUSR1, begin)
    signal.signal(signal.SIGUSR2, end)
    atexit.register(end)
    sys.path.insert(0, str(source))
    import_all(source)
    sys.argv[:] = ["gaifman", *words[active:]]
    profiler.start()
    runpy.run_module("gaifman", run_name="__main__")


def import_all(source: Path) -> None:
    """Import every module of gaifman first: what runs while a module is imported does not count."""
    for path in sorted((source / "gaifman").rglob("*.py")):
        if path.stem != "__main__":
            name = ".".join(path.relative_to(source).with_suffix("").parts)
            importlib.import_module(name.removesuffix(".__init__"))


def count(source: Path) -> dict[str, Files]:
    """The files that each command passes. Each runs twice: the first time compiles kernels."""
    with tempfile.TemporaryDirectory() as name:
        folder, model = Path(name), "model.gaifman"
        train = ("train", "demo", "--relation", RELATION, "-o", model)
        count_command(source, folder, *train)
        answer = ("answer", model, "demo", QUERY)
        explain = ("explain", model, "demo", FACT)
        for words in (answer, explain):
            count_command(source, folder, *words)
        return {
            "train": count_command(source, folder, *train, "--force"),
            "answer": count_command(source, folder, *answer),
            "explain": count_command(source, folder, *explain),
            "http_answer": count_request(source, folder, model),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--source", type=Path, default=ROOT / "src", help="the folder with the package")
    parser.add_argument("--names", action="store_true", help="print the files, not their number")
    parser.add_argument("--child", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    options = parser.parse_args()
    source = options.source.resolve()
    if options.child:
        profile_command(source, options.child)
        return
    files = count(source)
    print(json.dumps({name: (names if options.names else numbers)(found) for name, found in files.items()}, indent=1))


def numbers(files: Files) -> dict[str, int]:
    """How many there are, and in how many Python runs."""
    return {"files": len(files), "python": sum(files.values())}


def names(files: Files) -> dict[str, list[str]]:
    """Which there are, those with nothing but kernels apart."""
    return {kind: sorted(file for file, is_python in files.items() if is_python == own) for kind, own in KINDS}


if __name__ == "__main__":
    main()
