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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import BinaryIO
from urllib.error import HTTPError
from urllib.request import urlopen

from gaifman.errors import InputError, OutputError, shorten
from gaifman.io.files import damage

Progress = Callable[[str, int, int | None], None]
PARTS = ("train", "valid", "test")
BLOCK = 1 << 16
"""Bytes fetched at once."""
LARGEST = 1 << 30
"""Bytes that an archive, or a file in it, may have: the real ones have less than a tenth."""
PATIENCE = 60.0
"""Seconds without a byte until a server is given up."""


@dataclass(frozen=True, slots=True)
class DataSet:
    """A public data set of triples."""

    folder: str
    """What its folder is called."""
    home: str
    """Where its archive is fetched from."""
    member: str
    """How its files end in the archive, with the part in braces."""
    digests: Mapping[str, str]
    """Part → SHA-256 of its sorted lines, each with a newline."""


HOME = "https://everest.hds.utc.fr/lib/exe/fetch.php?media=en:"
SETS = {
    "wn18": DataSet(
        "WN18",
        f"{HOME}wordnet-mlj12.tar.gz",
        "wordnet-mlj12-{}.txt",
        {
            "train": "20ffc507447671047488b59e3df9e336f30a49fcbfb1770398320e6e0a17db8b",
            "valid": "2ab057b18def3db5dfeff4b68d19de0cff0d813aeebd4ff2cee173fb7bc7bc9d",
            "test": "381e7807e5b5d40663a2c40a881dbb81f794bde7a8909f6a67fc4d3cfff69a4a",
        },
    ),
    "fb15k": DataSet(
        "FB15k",
        f"{HOME}fb15k.tgz",
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
class Files:
    """Where the parts of a data set are."""

    train: Path
    valid: Path
    test: Path

    def original(self, data: DataSet) -> bool:
        """Whether these are the published facts."""
        return all(digest(getattr(self, part)) == data.digests[part] for part in PARTS)


def located(data: DataSet, named: str | None = None, progress: Progress | None = None) -> Files:
    """The files of a data set: in the folder that is named, that of GAIFMAN_DATA, the cache; fetched where nowhere."""
    if named is not None:
        return files_in(Path(named) / data.folder)
    given = os.environ.get("GAIFMAN_DATA")
    for folder in [Path(given)] if given else []:
        if (folder / data.folder).exists():
            return files_in(folder / data.folder)
    target = cache() / data.folder
    if not target.exists():
        fetch(data, target, progress)
    return files_in(target)


def cache() -> Path:
    """Where fetched data sets are kept: `~/.cache/gaifman`, or below XDG_CACHE_HOME."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gaifman"


def files_in(folder: Path) -> Files:
    """The files of a folder, packed or not, or an error that names the one that is not there."""
    found = []
    for part in PARTS:
        paths = [folder / f"{part}.txt.gz", folder / f"{part}.txt"]
        there = next((path for path in paths if path.is_file()), None)
        if there is None:
            raise InputError(f"there is no file {paths[0]}", hint=f"{folder} holds {_names()}, tab-separated triples")
        found.append(there)
    return Files(*found)


def digest(path: Path) -> str:
    """SHA-256 of the sorted lines of a file, packed or not."""
    with damage(str(path)):
        data = path.read_bytes()
        return digest_of(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)


def digest_of(text: bytes) -> str:
    r"""SHA-256 of the sorted lines of a text.

    >>> digest_of(b"a\tr\tb\r\nb\tr\tc\r\n") == digest_of(b"b\tr\tc\na\tr\tb")
    True
    """
    found = hashlib.sha256()
    for line in sorted(line for line in text.splitlines() if line):
        found.update(line + b"\n")
    return found.hexdigest()


def fetch(data: DataSet, target: Path, progress: Progress | None = None) -> None:
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
            _copied(data, file, progress)
        _unpacked(data, archive, passing)
        archive.unlink()
        passing.rename(target)
    except OSError as error:
        raise OutputError(f"{target} cannot be written: {error.strerror}") from None
    finally:
        shutil.rmtree(passing, ignore_errors=True)


def _copied(data: DataSet, file: BinaryIO, progress: Progress | None) -> None:
    """Copy the archive from its home."""
    done, total, name = 0, None, data.home
    try:
        with urlopen(name, timeout=PATIENCE) as answer:  # noqa: S310  # the address is ours, not the user's
            length = answer.headers.get("Content-Length")
            total = int(length) if length and length.isdecimal() else None
            while block := answer.read(BLOCK):
                file.write(block)
                done += len(block)
                if done > LARGEST:
                    raise InputError(
                        f"{name} gives more than {LARGEST:,} bytes: it is no data set", hint=_by_hand(data)
                    )
                if progress:
                    progress(f"fetching {data.folder}", done, total)
    except (OSError, HTTPException) as error:
        if isinstance(error, HTTPError):
            error.close()  # it holds the connection
        why = getattr(error, "reason", None) or str(error) or type(error).__name__
        raise InputError(f"{name} cannot be fetched: {shorten(str(why), 100)}", hint=_by_hand(data)) from None
    if total is not None and done < total:
        raise InputError(f"{name} was cut off: {done:,} of {total:,} bytes came", hint="try again")


def _unpacked(data: DataSet, archive: Path, folder: Path) -> None:
    """Take the three files out of the archive, check them and pack each by itself."""
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(archive) as packed:
            for member in packed:
                part = next((p for p in PARTS if Path(member.name).name == data.member.format(p)), None)
                if part and member.isfile() and member.size <= LARGEST and (file := packed.extractfile(member)):
                    found[part] = file.read()
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        why = shorten(str(error), 100)
        raise InputError(f"what {data.home} gives is no whole archive: {why}", hint=_by_hand(data)) from None
    for part in PARTS:
        if part not in found:
            raise InputError(f"the archive of {data.home} has no {data.member.format(part)}", hint=_by_hand(data))
        if digest_of(found[part]) != data.digests[part]:
            raise InputError(
                f"{data.member.format(part)} of {data.home} is not the published one: its checksum is another",
                hint=_by_hand(data),
            )
        # The time is left out, so that equal facts are equal files.
        (folder / f"{part}.txt.gz").write_bytes(gzip.compress(found[part], mtime=0))


def _by_hand(data: DataSet) -> str:
    return f"put {_names()} into FOLDER/{data.folder} yourself, and say --data FOLDER"


def _names() -> str:
    return ", ".join(f"{part}.txt.gz" for part in PARTS[:-1]) + f" and {PARTS[-1]}.txt.gz"
