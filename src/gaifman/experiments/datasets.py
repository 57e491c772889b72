"""The public data sets of the paper, from a folder or downloaded and checked.

    FOLDER/WN18/train.txt.gz, valid.txt.gz, test.txt.gz       FOLDER/FB15k/…

FOLDER is given, or the environment variable GAIFMAN_DATA, or the user's cache. A data set that is in none of them is
downloaded into the cache. The checksum of a file is the SHA-256 of its sorted lines: compression, the order of lines
and line ends do not change it.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import secrets
import shutil
import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gaifman.config import ProgressCallback
from gaifman.errors import InputError, OutputError, shorten
from gaifman.io.files import translate_read_errors

SPLIT_NAMES = ("train", "valid", "test")
BLOCK_SIZE = 1 << 16
"""Bytes per read of a download."""
MAX_BYTES = 1 << 30
"""Largest archive, and largest file in it, in bytes; the real ones are ten times smaller."""
TIMEOUT_SECONDS = 60.0
"""Longest pause of a download."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """A public data set of triples."""

    folder: str
    """Name of its folder."""
    url: str
    """Address of its archive."""
    member_pattern: str
    """File names in the archive, with `{}` for the split."""
    digests: Mapping[str, str]
    """Split → SHA-256 of its sorted lines, each with a newline."""


BASE_URL = "https://everest.hds.utc.fr/lib/exe/fetch.php?media=en:"
DATASETS = {
    "wn18": Dataset(
        "WN18",
        f"{BASE_URL}wordnet-mlj12.tar.gz",
        "wordnet-mlj12-{}.txt",
        {
            "train": "20ffc507447671047488b59e3df9e336f30a49fcbfb1770398320e6e0a17db8b",
            "valid": "2ab057b18def3db5dfeff4b68d19de0cff0d813aeebd4ff2cee173fb7bc7bc9d",
            "test": "381e7807e5b5d40663a2c40a881dbb81f794bde7a8909f6a67fc4d3cfff69a4a",
        },
    ),
    "fb15k": Dataset(
        "FB15k",
        f"{BASE_URL}fb15k.tgz",
        "freebase_mtr100_mte100-{}.txt",
        {
            "train": "696337a2d6133546ab6806e35dcbd5c0bfbef4f3e553e61714b95f754a6f3c5b",
            "valid": "bac82edda6b039f852c8f316eb39cc26061029a762c5d75d52b7a3b1db738663",
            "test": "c60cb5d919959724021809b504b648dfe385b4733bd75918b4dd93c1c3b5f97e",
        },
    ),
}
"""Data sets by the names that `gaifman reproduce` takes."""


@dataclass(frozen=True, slots=True)
class DatasetFiles:
    """The files of a data set."""

    train: Path
    valid: Path
    test: Path

    def is_published(self, dataset: Dataset) -> bool:
        """Whether the files hold the published facts."""
        return all(file_digest(getattr(self, split)) == dataset.digests[split] for split in SPLIT_NAMES)


def locate_dataset(
    dataset: Dataset, data_dir: str | None = None, progress: ProgressCallback | None = None
) -> DatasetFiles:
    """Find the files in `data_dir`, else in GAIFMAN_DATA or the cache; download them if they are in neither."""
    if data_dir is not None:
        return find_split_files(Path(data_dir) / dataset.folder)
    configured = os.environ.get("GAIFMAN_DATA")
    if configured and (Path(configured) / dataset.folder).exists():
        return find_split_files(Path(configured) / dataset.folder)
    target = cache_dir() / dataset.folder
    if not target.exists():
        download(dataset, target, progress)
    return find_split_files(target)


def cache_dir() -> Path:
    """The folder of downloaded data sets: `~/.cache/gaifman`, or below XDG_CACHE_HOME."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gaifman"


def find_split_files(folder: Path) -> DatasetFiles:
    """Return the files of a folder, compressed or not; raise an error that names the first one missing."""
    found = []
    for split in SPLIT_NAMES:
        path = find_split_file(folder, split)
        if path is None:
            raise InputError(
                f"there is no file {folder / split}.txt.gz",
                hint=f"{folder} must hold {split_file_names()}: tab-separated triples",
            )
        found.append(path)
    return DatasetFiles(*found)


def find_split_file(folder: Path, split: str) -> Path | None:
    """Return the file of a split in a folder, compressed or not; None if there is none."""
    paths = (folder / f"{split}.txt.gz", folder / f"{split}.txt")
    return next((path for path in paths if path.is_file()), None)


def file_digest(path: Path) -> str:
    """Return the SHA-256 of the sorted lines of a file, compressed or not."""
    with translate_read_errors(str(path)):
        data = path.read_bytes()
        return text_digest(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)


def text_digest(text: bytes) -> str:
    r"""Return the SHA-256 of the sorted lines of a text.

    >>> text_digest(b"a\tr\tb\r\nb\tr\tc\r\n") == text_digest(b"b\tr\tc\na\tr\tb")
    True
    """
    digest = hashlib.sha256()
    for line in sorted(line for line in text.splitlines() if line):
        digest.update(line + b"\n")
    return digest.hexdigest()


def download(dataset: Dataset, target: Path, progress: ProgressCallback | None = None) -> None:
    """Download a data set into a new folder; on failure the folder does not exist."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.parent / f".{target.name}.{secrets.token_hex(4)}.part"
        partial.mkdir()
    except OSError as error:
        raise OutputError(f"cannot write {target}: {error.strerror}", hint="or name a folder: --data-dir") from None
    try:
        archive = partial / "archive"
        _download_archive(dataset, archive, progress)
        _unpack(dataset, archive, partial)
        archive.unlink()
        partial.rename(target)
    except OSError as error:
        raise OutputError(f"cannot write {target}: {error.strerror}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


class _ProgressBar:
    """The progress bar that pooch expects: reports to a callback, and stops a download that is too large."""

    total = 0

    def __init__(self, dataset: Dataset, progress: ProgressCallback | None) -> None:
        self._dataset, self._progress, self._done = dataset, progress, 0

    def update(self, count: int) -> None:
        """Count bytes."""
        self._done += count
        if max(self._done - BLOCK_SIZE, self.total) > MAX_BYTES:
            raise InputError(
                f"{self._dataset.url} is larger than {MAX_BYTES:,} bytes", hint=_manual_hint(self._dataset)
            )
        if self._progress:
            self._progress(f"downloading {self._dataset.folder}", self._done, self.total or None)

    def reset(self) -> None:
        """Start again; pooch then counts all bytes at once."""
        self._done = 0

    def close(self) -> None:
        """Nothing to close."""


def _download_archive(dataset: Dataset, target: Path, progress: ProgressCallback | None) -> None:
    try:
        import pooch
    except ImportError:
        raise InputError(
            "downloads need pooch, which is not installed",
            hint=f"pip install 'gaifman[datasets]', or {_manual_hint(dataset)}",
        ) from None
    from requests import RequestException

    responses: list[Any] = []
    fetch = pooch.HTTPDownloader(
        progressbar=_ProgressBar(dataset, progress),
        chunk_size=BLOCK_SIZE,
        timeout=TIMEOUT_SECONDS,
        hooks={"response": lambda response, **_: responses.append(response)},
    )
    try:
        fetch(dataset.url, str(target), None)
    except RequestException as error:
        raise InputError(f"cannot download {dataset.url}: {_reason(error)}", hint=_manual_hint(dataset)) from None
    finally:
        for response in responses:
            response.close()  # pooch leaves it open after an error


def _reason(error: OSError) -> str:
    """The end of an error message of requests: "Not Found", "timed out", "Connection refused"."""
    from requests import Timeout

    text = str(error).partition(" for url:")[0].rpartition(": ")[2]
    return "timed out" if isinstance(error, Timeout) else shorten(text.strip("'\")") or type(error).__name__, 100)


def _unpack(dataset: Dataset, archive: Path, folder: Path) -> None:
    """Read the three files from the archive, check them, and write each compressed.

    No name of the archive becomes a path.
    """
    found: dict[str, bytes] = {}
    names = {dataset.member_pattern.format(split): split for split in SPLIT_NAMES}
    try:
        with tarfile.open(archive) as members:
            for member in members:
                split = names.get(Path(member.name).name)
                if split and member.isfile() and member.size <= MAX_BYTES and (file := members.extractfile(member)):
                    found[split] = file.read()
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        reason = shorten(str(error), 100)
        raise InputError(f"{dataset.url} is not a complete archive: {reason}", hint=_manual_hint(dataset)) from None
    for name, split in names.items():
        if split not in found:
            raise InputError(f"the archive {dataset.url} has no {name}", hint=_manual_hint(dataset))
        if text_digest(found[split]) != dataset.digests[split]:
            raise InputError(
                f"{name} of {dataset.url} is not the published file: its checksum differs", hint=_manual_hint(dataset)
            )
        # Without a time, equal facts give equal files.
        (folder / f"{split}.txt.gz").write_bytes(gzip.compress(found[split], mtime=0))


def _manual_hint(dataset: Dataset) -> str:
    return f"put {split_file_names()} into FOLDER/{dataset.folder} and use --data-dir FOLDER"


def split_file_names() -> str:
    """Return the names of the files of a data set, as text."""
    return ", ".join(f"{split}.txt.gz" for split in SPLIT_NAMES[:-1]) + f" and {SPLIT_NAMES[-1]}.txt.gz"
