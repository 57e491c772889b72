"""Model files: arrays and metadata in one safetensors file, complete or refused.

>>> import numpy as np
>>> data = model_bytes({"weights": np.arange(3, dtype=np.float32)}, {"kind": "model", "features": 5})
>>> arrays, meta = parse_model(data)
>>> arrays["weights"].tolist(), meta["features"]
([0.0, 1.0, 2.0], 5)
>>> parse_model(data[:-1])
Traceback (most recent call last):
gaifman.errors.InputError: the model is cut off: it has 259 of 260 bytes
hint: train the model again, or copy the file again

Equal content gives equal bytes. safetensors writes its metadata in a random order, so the header is written here in a
canonical form, and read by safetensors. The header must have this form, and a checksum covers the rest: a file with
one wrong byte is refused.
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

from gaifman.errors import GaifmanError, InputError, OutputError, shorten
from gaifman.io.files import atomic_write, check_exists, translate_read_errors

Arrays = dict[str, npt.NDArray[Any]]
Meta = dict[str, Any]

FORMAT = "gaifman model"
VERSION = 7
"""Raise it when the format changes, or the names of arrays or metadata."""
MAX_HEADER_BYTES = 32_000_000
"""Maximum size of the header: 600,000 features. Python's objects take up to twenty times as much."""
MAX_HEADER_BRACKETS = 2_000_000
"""Maximum number of lists and objects in the header: 600,000 arrays. An empty list takes 56 bytes of memory."""

DTYPES: dict[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "I32": np.dtype("<i4"),
    "I64": np.dtype("<i8"),
    "U8": np.dtype("u1"),
    "U64": np.dtype("<u8"),
    "BOOL": np.dtype("?"),
}
"""The types of arrays, by their names in the file."""
_NAMES = {dtype: code for code, dtype in DTYPES.items()}

_START = b'{"__metadata__":{'
"""The header of every model file, after its length."""
_RETRY_HINT = "train the model again, or copy the file again"
_MODEL_HINT = "`gaifman train` writes model files"


def write_model(path: Path | str, arrays: Mapping[str, npt.NDArray[Any]], meta: Mapping[str, Any]) -> None:
    """Write a model file, complete or not at all, without copying the arrays."""
    header, ordered = _pack(arrays, meta)
    with atomic_write(Path(path)) as temporary, temporary.open("wb") as file:
        file.write(header)
        for array in ordered:
            file.write(_raw(array).data)


def is_model_file(path: Path | str) -> bool:
    """Whether a file starts as model files do. What cannot be read is none."""
    try:
        with Path(path).open("rb") as file:
            return file.read(8 + len(_START))[8:] == _START
    except (OSError, ValueError):
        return False


def model_bytes(arrays: Mapping[str, npt.NDArray[Any]], meta: Mapping[str, Any]) -> bytes:
    """Return the bytes that `write_model` writes."""
    header, ordered = _pack(arrays, meta)
    return b"".join([header, *(_raw(array).data for array in ordered)])


def checksum(arrays: Mapping[str, npt.NDArray[Any]], meta: Mapping[str, Any]) -> str:
    """Return the checksum of a model's content, 64 hexadecimal digits.

    >>> checksum({}, {"radius": 1}) == checksum({}, {"radius": 2})
    False
    """
    return _checksum(canonical_json(meta), {name: _storable(name, array) for name, array in arrays.items()})


def read_model(path: Path | str) -> tuple[Arrays, Meta]:
    """Return the arrays, which are writable, and the metadata of a model file.

    The file is mapped into memory and copied array by array: memory holds it once.
    """
    path, name = Path(path), shorten(str(path), 120)
    _check_exists(path, name)
    with translate_read_errors(name), path.open("rb") as file, _translate_errors(name):
        header = _read_header(file, os.fstat(file.fileno()).st_size, name)
        with safe_open(path, framework="numpy") as tensors:
            if not os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return read_model(path)  # replaced between the two openings
            strings = _check_metadata(tensors.metadata(), name)
            names = list(tensors.keys())
            for tensor in names:
                _dtype(tensors.get_slice(tensor).get_dtype(), name)
            arrays = {tensor: tensors.get_tensor(tensor) for tensor in names}
    return arrays, _verify(header, strings, arrays, name)


def parse_model(data: bytes, name: str = "the model") -> tuple[Arrays, Meta]:
    """Return the arrays and metadata of the bytes of a model file; `name` is used in error messages."""
    with _translate_errors(name):
        header = _read_header(io.BytesIO(data), len(data), name)
        strings = _check_metadata(json.loads(header[8:]).get("__metadata__"), name)
        arrays = {}
        for tensor, found in deserialize(data):  # type: ignore[no-untyped-call]
            dtype = _dtype(found["dtype"], name)
            arrays[tensor] = np.frombuffer(found["data"], dtype).reshape(found["shape"])
    return arrays, _verify(header, strings, arrays, name)


def canonical_json(value: Any) -> str:
    r"""Return the canonical JSON text of a value: sorted keys, no spaces, ASCII, no NaN; tuples become lists.

    >>> canonical_json({"b": (1, 2.5), "a": "é"})
    '{"a":"\\u00e9","b":[1,2.5]}'
    """
    try:
        return json.dumps(_to_plain(value), sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise OutputError(f"not a JSON value: {error}") from None


def strip_prefix(arrays: Mapping[str, npt.NDArray[Any]], prefix: str) -> Arrays:
    """Return the arrays whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def require_array(
    arrays: Mapping[str, npt.NDArray[Any]], name: str, dtype: npt.DTypeLike, shape: tuple[int | None, ...]
) -> npt.NDArray[Any]:
    """Return an array that a model needs; refuse another type or shape (None for any length), NaN and infinity.

    >>> require_array({"scales": np.ones(3)}, "scales", np.float64, (2,))
    Traceback (most recent call last):
    gaifman.errors.InputError: the array 'scales' must be float64 of shape (2,), got float64 of shape (3,)
    """
    if name not in arrays:
        raise InputError(f"the array {name!r} is missing")
    array = arrays[name]
    fits = len(array.shape) == len(shape) and all(
        wanted in (None, found) for wanted, found in zip(shape, array.shape, strict=True)
    )
    if array.dtype != dtype or not fits:
        wanted = str(tuple("any" if length is None else length for length in shape)).replace("'", "")
        expected = f"{np.dtype(dtype)} of shape {wanted}"
        raise InputError(f"the array {name!r} must be {expected}, got {array.dtype} of shape {array.shape}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise InputError(f"the array {name!r} has numbers that are not finite")
    return array


def _to_plain(value: Any) -> Any:
    """Return the value as plain Python objects that JSON has."""
    match value:
        case Mapping():
            if wrong := [key for key in value if not isinstance(key, str)]:
                raise OutputError(f"the keys of a JSON object must be strings, got {wrong[0]!r}")
            return {key: _to_plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_to_plain(inner) for inner in value]
        case np.generic():
            return value.item()
        case None | str() | bool() | int() | float():
            return value
    raise OutputError(f"not a JSON value: {type(value).__name__}", hint="arrays go with the arrays")


def _pack(arrays: Mapping[str, npt.NDArray[Any]], meta: Mapping[str, Any]) -> tuple[bytes, list[npt.NDArray[Any]]]:
    """Return the file's header and the arrays in file order."""
    checked = {name: _storable(name, array) for name, array in arrays.items()}
    text = canonical_json(meta)
    strings = {"checksum": _checksum(text, checked), "format": FORMAT, "meta": text, "version": str(VERSION)}
    header = _header(strings, checked)
    if problem := _header_problem(len(header) - 8, header):
        raise OutputError(f"the model is too large: its header has {problem}")
    return header, [checked[name] for name in _order(checked)]


def _storable(name: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array as in the file: little-endian, C order."""
    if not isinstance(name, str) or not name.isprintable() or name in ("", "__metadata__"):
        raise OutputError(f"an array of a model cannot have the name {name!r}", hint="use printable characters")
    dtype = array.dtype.newbyteorder("<")
    if dtype not in _NAMES:
        kinds = ", ".join(str(known) for known in DTYPES.values())
        raise OutputError(f"the array {name} has the type {array.dtype}, not one of {kinds}")
    return np.asarray(array, dtype, order="C")


def _raw(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    return array.reshape(-1).view(np.uint8)


def _order(arrays: Arrays) -> list[str]:
    """Return the names in the order of safetensors: by item size, so that every array is aligned."""
    return sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))


def _header(strings: Mapping[str, str], arrays: Arrays) -> bytes:
    """Return the canonical header."""
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
    """Return the checksum of the metadata and of each array's name, type, shape and bytes."""
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
        raise InputError(f"{name} is not a regular file", hint=_MODEL_HINT)


def _read_header(file: BinaryIO, size: int, name: str) -> bytes:
    """Return the header; refuse files of the wrong size."""
    if not size:
        raise InputError(f"{name} is empty", hint=_MODEL_HINT)
    length, first = file.read(8), file.read(1)
    if first != b"{":
        raise InputError(f"{name} is not a model file", hint=f"{_MODEL_HINT}; name the model before the knowledge base")
    count = int.from_bytes(length, "little")
    if size < 8 + count:
        _raise_cut_off(name, size, 8 + count)
    text = first + file.read(count - 1) if 0 < count <= MAX_HEADER_BYTES else b""
    if problem := _header_problem(count, text):
        raise InputError(f"{name} is refused: its header has {problem}", hint=_RETRY_HINT)
    expected = 8 + count + _data_end(text)
    if size > expected:
        _raise_damaged(name, f"it has {size - expected:,} bytes too many")
    if size < expected:
        _raise_cut_off(name, size, expected)
    return length + text


def _header_problem(count: int, text: bytes) -> str:
    """Return why a header of `count` bytes is too large to be parsed; "" if it is not."""
    if count > MAX_HEADER_BYTES:
        return f"{count:,} bytes, more than {MAX_HEADER_BYTES:,}"
    brackets = text.count(b"[") + text.count(b"{")
    return f"{brackets:,} brackets, more than {MAX_HEADER_BRACKETS:,}" if brackets > MAX_HEADER_BRACKETS else ""


def _data_end(text: bytes) -> int:
    """Return the end of the last array according to the header."""
    entries = json.loads(text)
    return max((entry["data_offsets"][1] for key, entry in entries.items() if key != "__metadata__"), default=0)


@contextmanager
def _translate_errors(name: str) -> Iterator[None]:
    """Turn all errors of a damaged header into one."""
    try:
        yield
    except SafetensorError as error:
        _raise_damaged(name, shorten(str(error), 100), error)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        _raise_damaged(name, "its header cannot be read", error)
    except MemoryError:
        raise InputError(f"{name} needs more memory than there is") from None


def _raise_cut_off(name: str, size: int, expected: int) -> NoReturn:
    raise InputError(f"{name} is cut off: it has {size:,} of {expected:,} bytes", hint=_RETRY_HINT)


def _raise_damaged(name: str, reason: str, cause: Exception | None = None) -> NoReturn:
    raise InputError(f"{name} is damaged: {reason}", hint=_RETRY_HINT) from cause


def _dtype(code: str, name: str) -> np.dtype[Any]:
    if code not in DTYPES:
        _raise_damaged(name, f"it has an array of the type {shorten(code)}")
    return DTYPES[code]


def _check_metadata(strings: Any, name: str) -> dict[str, str]:
    """Return the metadata; refuse other programs and versions."""
    if not strings or strings.get("format") != FORMAT:
        raise InputError(f"{name} was written by another program", hint=_MODEL_HINT)
    version = strings.get("version", "")
    if version != str(VERSION):
        if version.isascii() and version.isdigit() and version > "0":
            if int(version) < VERSION:
                raise InputError(f"{name} was trained by an earlier version: train again")
            raise InputError(
                f"{name} was written by a newer version: format {shorten(version)}, this one reads {VERSION}",
                hint="pip install --upgrade gaifman",
            )
        _raise_damaged(name, f"{shorten(version)!r} is not a version")
    if strings.keys() != {"checksum", "format", "meta", "version"}:
        _raise_damaged(name, "its metadata has unknown fields")
    return dict(strings)


def _verify(header: bytes, strings: dict[str, str], arrays: Arrays, name: str) -> Meta:
    """Return the metadata if every byte of the file is as `write_model` writes it."""
    text = strings["meta"]
    if header != _header(strings, arrays):
        _raise_damaged(name, "its header was changed")
    if strings["checksum"] != _checksum(text, arrays):
        _raise_damaged(name, "the checksum does not match")
    if any(array.dtype == bool and _raw(array).max(initial=0) > 1 for array in arrays.values()):
        _raise_damaged(name, "a boolean is neither 0 nor 1")
    try:
        meta = json.loads(text)
        canonical = isinstance(meta, dict) and canonical_json(meta) == text
    except (ValueError, RecursionError, OutputError) as error:
        _raise_damaged(name, "its metadata is not JSON", error)
    if not canonical:
        _raise_damaged(name, "its metadata was changed")
    return dict(meta)


@contextmanager
def translate_state_errors(kind: str) -> Iterator[None]:
    """Raise InputError for arrays and metadata that are not those of a model."""
    try:
        yield
    except InputError:
        raise
    except GaifmanError as error:
        raise InputError(
            f"this is not a valid {kind}: {error.message}", suggestions=error.suggestions, hint=error.hint
        ) from error
    except MemoryError as error:
        raise InputError(f"the {kind} needs more memory than there is") from error
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError, RecursionError) as error:
        raise InputError(f"this is not a valid {kind}: {shorten(repr(error), 200)}") from error


def read_model_state(path: str | Path) -> tuple[Arrays, dict[str, Any]]:
    """The arrays and metadata of a model file."""
    arrays, meta = read_model(path)
    if meta.get("kind") not in ("model", "completion"):
        raise InputError(f"{path} is not a model or a completion, but {meta.get('kind')!r}")
    return arrays, meta
