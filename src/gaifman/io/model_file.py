"""Model files: arrays and a JSON object in one safetensors file, whole or refused.

>>> import numpy as np
>>> data = model_bytes({"weights": np.arange(3, dtype=np.float32)}, {"kind": "model", "radius": 1})
>>> arrays, meta = parse_model(data)
>>> arrays["weights"].tolist(), meta["radius"]
([0.0, 1.0, 2.0], 1)
>>> parse_model(data[:-1])
Traceback (most recent call last):
gaifman.errors.InputError: the model is cut off: 259 of 260 bytes are there
hint: make it anew, or copy it once more from where it came

Equal content gives equal bytes. safetensors itself writes its metadata in another order each time, so the header is
written here, in one form alone; its reader does the reading. What is read is put into that form again and compared
with the file, and a checksum covers the rest: a file in which one byte is not as it was written is refused.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, deserialize, safe_open

from gaifman.errors import InputError, OutputError, shorten
from gaifman.io.files import atomic_write, check_exists, translate_read_errors

Arrays = dict[str, npt.NDArray[Any]]
Meta = dict[str, Any]

FORMAT = "gaifman model"
VERSION = 2
"""Raised when files are written that older versions of gaifman would misread."""
MAX_HEADER_BYTES = 100_000_000
"""Bytes that the header may have: safetensors reads no larger one."""

DTYPES: dict[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "I32": np.dtype("<i4"),
    "I64": np.dtype("<i8"),
    "U8": np.dtype("u1"),
    "U64": np.dtype("<u8"),
    "BOOL": np.dtype("?"),
}
"""The kinds of array that a model has, by their names in the file."""
_NAMES = {dtype: code for code, dtype in DTYPES.items()}

_RETRY_HINT = "make it anew, or copy it once more from where it came"
_MODEL_HINT = "a model is what `gaifman train` writes"


def write_model(path: Path | str, arrays: Mapping[str, npt.NDArray[Any]], meta: Mapping[str, Any]) -> None:
    """Write a model file, whole or not at all; nothing is copied on the way, however large the arrays are."""
    header, ordered = _pack(arrays, meta)
    with atomic_write(Path(path)) as temporary, temporary.open("wb") as file:
        file.write(header)
        for array in ordered:
            file.write(_raw(array).data)


def model_bytes(arrays: Mapping[str, npt.NDArray[Any]], meta: Mapping[str, Any]) -> bytes:
    """What `write_model` would write; for small models."""
    header, ordered = _pack(arrays, meta)
    return b"".join([header, *(_raw(array).data for array in ordered)])


def checksum(arrays: Mapping[str, npt.NDArray[Any]], meta: Mapping[str, Any]) -> str:
    """64 hexadecimal digits of what `write_model` would write: the same for the same content, and for no other.

    >>> checksum({}, {"radius": 1}) == checksum({}, {"radius": 2})
    False
    """
    return _checksum(canonical_json(meta), {name: _storable(name, array) for name, array in arrays.items()})


def read_model(path: Path | str) -> tuple[Arrays, Meta]:
    """The arrays, which are yours to write to, and the object of a model file; an InputError where it is not whole.

    The file is mapped, and one array after another is copied out of it: memory holds it once.
    """
    path, name = Path(path), shorten(str(path), 120)
    _check_exists(path, name)
    with translate_read_errors(name), path.open("rb") as file, _translate_errors(name):
        header = _read_header(file, os.fstat(file.fileno()).st_size, name)
        with safe_open(path, framework="numpy") as tensors:
            if not os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return read_model(path)  # replaced by another between the two openings
            strings = _check_metadata(tensors.metadata(), name)
            names = list(tensors.keys())
            for tensor in names:
                _dtype(tensors.get_slice(tensor).get_dtype(), name)
            arrays = {tensor: tensors.get_tensor(tensor) for tensor in names}
    return arrays, _verify(header, strings, arrays, name)


def parse_model(data: bytes, name: str = "the model") -> tuple[Arrays, Meta]:
    """As `read_model`, from the bytes of a file; messages call it by `name`."""
    with _translate_errors(name):
        header = _read_header(io.BytesIO(data), len(data), name)
        strings = _check_metadata(json.loads(header[8:]).get("__metadata__"), name)
        arrays = {}
        for tensor, found in deserialize(data):  # type: ignore[no-untyped-call]
            dtype = _dtype(found["dtype"], name)
            arrays[tensor] = np.frombuffer(found["data"], dtype).reshape(found["shape"])
    return arrays, _verify(header, strings, arrays, name)


def canonical_json(value: Any) -> str:
    r"""The one JSON text of a value: sorted keys, no spaces, ASCII, no NaN. Tuples are lists, numbers of numpy numbers.

    >>> canonical_json({"b": (1, 2.5), "a": "é"})
    '{"a":"\\u00e9","b":[1,2.5]}'
    """
    try:
        return json.dumps(_to_plain(value), sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise OutputError(f"this cannot be kept as JSON: {error}") from None


def strip_prefix(arrays: Mapping[str, npt.NDArray[Any]], prefix: str) -> Arrays:
    """Return the arrays whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _to_plain(value: Any) -> Any:
    """The same of dictionaries, lists, texts, numbers, truth values and None alone."""
    match value:
        case Mapping():
            if wrong := [key for key in value if not isinstance(key, str)]:
                raise OutputError(f"the keys of what is kept are texts, not {wrong[0]!r}")
            return {key: _to_plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_to_plain(inner) for inner in value]
        case np.generic():
            return value.item()
        case None | str() | bool() | int() | float():
            return value
    raise OutputError(f"a {type(value).__name__} cannot be kept as JSON", hint="arrays have their own place")


def _pack(arrays: Mapping[str, npt.NDArray[Any]], meta: Mapping[str, Any]) -> tuple[bytes, list[npt.NDArray[Any]]]:
    """The file's header, and the arrays as they follow it."""
    checked = {name: _storable(name, array) for name, array in arrays.items()}
    text = canonical_json(meta)
    strings = {"checksum": _checksum(text, checked), "format": FORMAT, "meta": text, "version": str(VERSION)}
    header = _header(strings, checked)
    if len(header) > MAX_HEADER_BYTES:
        raise OutputError(
            f"what stands beside the arrays of a model has {len(header):,} bytes; {MAX_HEADER_BYTES:,} may be"
        )
    return header, [checked[name] for name in _order(checked)]


def _storable(name: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """An array as it stands in a file: little-endian, one row after another."""
    if not isinstance(name, str) or not name.isprintable() or name in ("", "__metadata__"):
        raise OutputError(f"an array of a model cannot have the name {name!r}", hint="letters, digits and signs")
    dtype = array.dtype.newbyteorder("<")
    if dtype not in _NAMES:
        kinds = ", ".join(str(known) for known in DTYPES.values())
        raise OutputError(f"the array {name} has the type {array.dtype}; a model holds {kinds}")
    return np.asarray(array, dtype, order="C")


def _raw(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    return array.reshape(-1).view(np.uint8)


def _order(arrays: Arrays) -> list[str]:
    """As safetensors orders them: the widest numbers first, so that each array begins at a multiple of its width."""
    return sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))


def _header(strings: Mapping[str, str], arrays: Arrays) -> bytes:
    """The only header that a file with these contents can have."""
    entries: dict[str, Any] = {"__metadata__": dict(sorted(strings.items()))}
    end = 0
    for name in _order(arrays):
        array = arrays[name]
        begin, end = end, end + array.nbytes
        code = _NAMES[array.dtype.newbyteorder("<")]
        entries[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [begin, end]}
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _checksum(text: str, arrays: Arrays) -> str:
    """Of the JSON text and of each array's name, type, shape and bytes, in the order of the names."""
    shapes = [[name, _NAMES[array.dtype.newbyteorder("<")], array.shape] for name, array in sorted(arrays.items())]
    description = json.dumps([text, shapes]).encode()
    total = hashlib.blake2b(len(description).to_bytes(8, "little") + description, digest_size=32)
    for name in sorted(arrays):
        total.update(_raw(arrays[name]).data)
    return total.hexdigest()


def _check_exists(path: Path, name: str) -> None:
    try:
        check_exists(path)
    except InputError as error:
        raise InputError(error.message, suggestions=error.suggestions, hint=_MODEL_HINT) from None
    if not path.is_file():
        raise InputError(f"{name} is no regular file", hint=_MODEL_HINT)


def _read_header(file: BinaryIO, size: int, name: str) -> bytes:
    """The header's bytes, or what is wrong with the file as a whole."""
    if not size:
        raise InputError(f"{name} is empty", hint=_MODEL_HINT)
    length, first = file.read(8), file.read(1)
    if first != b"{":
        raise InputError(f"{name} is no model file", hint=f"{_MODEL_HINT}, and is named before the knowledge base")
    count = int.from_bytes(length, "little")
    text = first + file.read(min(count, MAX_HEADER_BYTES) - 1) if count else b""
    wanted = 8 + count + (_data_end(text) if len(text) == count else 0)
    if len(text) == count and size > wanted:
        raise InputError(f"{name} is damaged: {size - wanted:,} bytes follow its end", hint=_RETRY_HINT)
    if size < wanted:
        raise InputError(f"{name} is cut off: {size:,} of {wanted:,} bytes are there", hint=_RETRY_HINT)
    return length + text


def _data_end(text: bytes) -> int:
    """Where the last array ends, by the header."""
    entries = json.loads(text)
    return max((entry["data_offsets"][1] for key, entry in entries.items() if key != "__metadata__"), default=0)


@contextmanager
def _translate_errors(name: str) -> Iterator[None]:
    """Whatever goes wrong in what a damaged header leads to is one error."""
    try:
        yield
    except SafetensorError as error:
        _raise_damaged(name, shorten(str(error), 100), error)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        _raise_damaged(name, "its header cannot be read", error)


def _raise_damaged(name: str, why: str, cause: Exception | None = None) -> NoReturn:
    raise InputError(f"{name} is damaged: {why}", hint=_RETRY_HINT) from cause


def _dtype(code: str, name: str) -> np.dtype[Any]:
    if code not in DTYPES:
        _raise_damaged(name, f"a model holds no arrays of the type {shorten(code)}")
    return DTYPES[code]


def _check_metadata(strings: Any, name: str) -> dict[str, str]:
    """The metadata, where it is that of a model of this version."""
    if not strings or strings.get("format") != FORMAT:
        raise InputError(f"{name} was written by another program: it is no model of gaifman", hint=_MODEL_HINT)
    version = strings.get("version", "")
    if version != str(VERSION):
        if version.isascii() and version.isdigit() and version > "0":
            if int(version) < VERSION:
                raise InputError(f"{name} was trained by an earlier version of gaifman", hint="train the model again")
            raise InputError(
                f"{name} was made by a newer gaifman: its format is {shorten(version)}, this one reads {VERSION}",
                hint="pip install --upgrade gaifman",
            )
        _raise_damaged(name, f"{shorten(version)!r} is no version")
    if strings.keys() != {"checksum", "format", "meta", "version"}:
        _raise_damaged(name, "its metadata has other fields than it should")
    return dict(strings)


def _verify(header: bytes, strings: dict[str, str], arrays: Arrays, name: str) -> Meta:
    """The JSON object, where every byte of the file is as `write_model` would have written it."""
    text = strings["meta"]
    if header != _header(strings, arrays):
        _raise_damaged(name, "its header is not as it was written")
    if strings["checksum"] != _checksum(text, arrays):
        _raise_damaged(name, "its checksum does not fit what it holds")
    if any(array.dtype == bool and _raw(array).max(initial=0) > 1 for array in arrays.values()):
        _raise_damaged(name, "a truth value is neither 0 nor 1")
    try:
        meta = json.loads(text)
        fits = isinstance(meta, dict) and canonical_json(meta) == text
    except (ValueError, RecursionError, OutputError) as error:
        _raise_damaged(name, "its description is no JSON", error)
    if not fits:
        _raise_damaged(name, "its description is not as it was written")
    return dict(meta)
