"""The public data sets of the paper: found in a folder, or fetched from their home and checked.

    FOLDER/WN18/train.txt.gz, valid.txt.gz, test.txt.gz       and FB15k in the same way

The folder is the one that is named, or GAIFMAN_DATA, or the user's cache, into which they are fetched where they are
nowhere. What is checked are the facts: the SHA-256 of the sorted lines, so that neither the packing nor the order of
lines nor the ends of lines matter.
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
from http.client import HTTPException
from pathlib import Path
from typing import BinaryIO
from urllib.error import HTTPError
from urllib.request import urlopen

from gaifman.config import ProgressCallback
from gaifman.errors import InputError, OutputError, shorten
from gaifman.io.files import translate_read_errors

SPLIT_NAMES = ("train", "valid", "test")
BLOCK_SIZE = 1 << 16
"""Bytes fetched at once."""
MAX_BYTES = 1 << 30
"""Bytes that an archive, or a file in it, may have: the real ones have less than a tenth."""
TIMEOUT_SECONDS = 60.0
"""Seconds without a byte until a server is given up."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """A public data set of triples."""

    folder: str
    """What its folder is called."""
    url: str
    """Where its archive is fetched from."""
    member_pattern: str
    """How its files end in the archive, with the part in braces."""
    digests: Mapping[str, str]
    """Part → SHA-256 of its sorted lines, each with a newline."""


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
"""By the names that `gaifman reproduce` takes."""


@dataclass(frozen=True, slots=True)
class DatasetFiles:
    """Where the parts of a data set are."""

    train: Path
    valid: Path
    test: Path

    def is_published(self, dataset: Dataset) -> bool:
        """Whether these are the published facts."""
        return all(file_digest(getattr(self, part)) == dataset.digests[part] for part in SPLIT_NAMES)


def locate_dataset(
    dataset: Dataset, data_dir: str | None = None, progress: ProgressCallback | None = None
) -> DatasetFiles:
    """The files of a data set: in the folder that is named, that of GAIFMAN_DATA, the cache; fetched where nowhere."""
    if data_dir is not None:
        return find_split_files(Path(data_dir) / dataset.folder)
    given = os.environ.get("GAIFMAN_DATA")
    for folder in [Path(given)] if given else []:
        if (folder / dataset.folder).exists():
            return find_split_files(folder / dataset.folder)
    target = cache_dir() / dataset.folder
    if not target.exists():
        download(dataset, target, progress)
    return find_split_files(target)


def cache_dir() -> Path:
    """Where fetched data sets are kept: `~/.cache/gaifman`, or below XDG_CACHE_HOME."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gaifman"


def find_split_files(folder: Path) -> DatasetFiles:
    """The files of a folder, packed or not, or an error that names the one that is not there."""
    found = []
    for part in SPLIT_NAMES:
        paths = [folder / f"{part}.txt.gz", folder / f"{part}.txt"]
        there = next((path for path in paths if path.is_file()), None)
        if there is None:
            raise InputError(
                f"there is no file {paths[0]}", hint=f"{folder} holds {_file_names()}, tab-separated triples"
            )
        found.append(there)
    return DatasetFiles(*found)


def file_digest(path: Path) -> str:
    """SHA-256 of the sorted lines of a file, packed or not."""
    with translate_read_errors(str(path)):
        data = path.read_bytes()
        return text_digest(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)


def text_digest(text: bytes) -> str:
    r"""SHA-256 of the sorted lines of a text.

    >>> text_digest(b"a\tr\tb\r\nb\tr\tc\r\n") == text_digest(b"b\tr\tc\na\tr\tb")
    True
    """
    found = hashlib.sha256()
    for line in sorted(line for line in text.splitlines() if line):
        found.update(line + b"\n")
    return found.hexdigest()


def download(dataset: Dataset, target: Path, progress: ProgressCallback | None = None) -> None:
    """Fetch a data set into a folder, which is there whole afterwards, or not at all."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        passing = target.parent / f".{target.name}.{secrets.token_hex(4)}.part"
        passing.mkdir()
    except OSError as error:
        raise OutputError(f"{target} cannot be written: {error.strerror}", hint="--data names another folder") from None
    try:
        archive = passing / "archive"
        with archive.open("wb") as file:
            _download_archive(dataset, file, progress)
        _unpack(dataset, archive, passing)
        archive.unlink()
        passing.rename(target)
    except OSError as error:
        raise OutputError(f"{target} cannot be written: {error.strerror}") from None
    finally:
        shutil.rmtree(passing, ignore_errors=True)


def _download_archive(dataset: Dataset, file: BinaryIO, progress: ProgressCallback | None) -> None:
    """Copy the archive from its home."""
    done, total, name = 0, None, dataset.url
    try:
        with urlopen(name, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310  # the address is ours, not the user's
            length = answer.headers.get("Content-Length")
            total = int(length) if length and length.isdecimal() else None
            while block := answer.read(BLOCK_SIZE):
                file.write(block)
                done += len(block)
                if done > MAX_BYTES:
                    raise InputError(
                        f"{name} gives more than {MAX_BYTES:,} bytes: it is no data set", hint=_manual_hint(dataset)
                    )
                if progress:
                    progress(f"fetching {dataset.folder}", done, total)
    except (OSError, HTTPException) as error:
        if isinstance(error, HTTPError):
            error.close()  # it holds the connection
        why = getattr(error, "reason", None) or str(error) or type(error).__name__
        raise InputError(f"{name} cannot be fetched: {shorten(str(why), 100)}", hint=_manual_hint(dataset)) from None
    if total is not None and done < total:
        raise InputError(f"{name} was cut off: {done:,} of {total:,} bytes came", hint="try again")


def _unpack(dataset: Dataset, archive: Path, folder: Path) -> None:
    """Take the three files out of the archive, check them and pack each by itself."""
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(archive) as packed:
            for member in packed:
                part = next(
                    (p for p in SPLIT_NAMES if Path(member.name).name == dataset.member_pattern.format(p)), None
                )
                if part and member.isfile() and member.size <= MAX_BYTES and (file := packed.extractfile(member)):
                    found[part] = file.read()
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        why = shorten(str(error), 100)
        raise InputError(f"what {dataset.url} gives is no whole archive: {why}", hint=_manual_hint(dataset)) from None
    for part in SPLIT_NAMES:
        if part not in found:
            raise InputError(
                f"the archive of {dataset.url} has no {dataset.member_pattern.format(part)}", hint=_manual_hint(dataset)
            )
        if text_digest(found[part]) != dataset.digests[part]:
            raise InputError(
                f"{dataset.member_pattern.format(part)} of {dataset.url} is not the published one: its checksum is another",
                hint=_manual_hint(dataset),
            )
        # The time is left out, so that equal facts are equal files.
        (folder / f"{part}.txt.gz").write_bytes(gzip.compress(found[part], mtime=0))


def _manual_hint(dataset: Dataset) -> str:
    return f"put {_file_names()} into FOLDER/{dataset.folder} yourself, and say --data FOLDER"


def _file_names() -> str:
    return ", ".join(f"{part}.txt.gz" for part in SPLIT_NAMES[:-1]) + f" and {SPLIT_NAMES[-1]}.txt.gz"
