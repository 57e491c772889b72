"""Model files: what is written comes back, equal content is equal bytes, and a damaged file is never believed."""

from __future__ import annotations

import itertools
import json
import os
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors import safe_open
from safetensors.numpy import load, save

import gaifman
from gaifman.errors import InputError, OutputError
from gaifman.io.model_file import (
    DTYPES,
    VERSION,
    canonical_json,
    model_bytes,
    parse_model,
    read_model,
    require_array,
    write_model,
)
from kbs import HOSTILE
from processes import run

ARRAYS: dict[str, npt.NDArray[Any]] = {
    "weights": np.array([[0.5, -1.0], [np.nan, 0.0]], np.float32),
    "known": np.array([True, False, True]),
    "ids": np.array([3, 1], np.int32),
    "one": np.array(7, np.uint64),
    "none": np.zeros((0, 4), np.float64),
    "bytes": np.array([255], np.uint8),
    "numbers": np.array([-1], np.int64),
}
META: dict[str, Any] = {
    "kind": "model",
    "query": "∃z p(x, z)",
    "radius": 1,
    "size": None,
    "loss": 0.25,
    "hidden": [1, 2],
}
SMALL = model_bytes({"w": np.array([1, 2], np.float32), "b": np.array([True])}, {"a": [1, "é"]})


def same(one: dict[str, npt.NDArray[Any]], other: dict[str, npt.NDArray[Any]]) -> bool:
    """Whether names, types, shapes and bits are the same."""
    return one.keys() == other.keys() and all(
        a.dtype == other[name].dtype and a.shape == other[name].shape and a.tobytes() == other[name].tobytes()
        for name, a in one.items()
    )


names = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=6)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
arrays = hnp.arrays(
    st.sampled_from(["f4", "f8", "i4", "i8", "u1", "u8", "?", ">f4", ">i8"]),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
)


@given(st.dictionaries(names, arrays, max_size=4), st.dictionaries(st.text(max_size=4), values, max_size=4))
def test_what_is_written_comes_back(content: dict[str, npt.NDArray[Any]], meta: dict[str, Any]) -> None:
    data = model_bytes(content, meta)
    back, described = parse_model(data)
    assert described == meta
    assert same({name: a.astype(a.dtype.newbyteorder("<")) for name, a in content.items()}, back)
    assert model_bytes(back, described) == data
    assert model_bytes(dict(reversed(content.items())), dict(reversed(meta.items()))) == data


def test_a_file_is_what_the_bytes_are(tmp_path: Path) -> None:
    path = tmp_path / "a.gaifman"
    write_model(path, ARRAYS, META)
    assert path.read_bytes() == model_bytes(ARRAYS, META)
    back, meta = read_model(str(path))
    assert meta == META
    assert same(back, ARRAYS)
    back["weights"][0, 0] = 2  # arrays are the reader's own
    assert path.read_bytes() == model_bytes(ARRAYS, META)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.gaifman"]


def test_other_programs_can_read_it_and_arrays_are_aligned(tmp_path: Path) -> None:
    path = tmp_path / "a.gaifman"
    write_model(path, ARRAYS, META)
    assert same(load(path.read_bytes()), ARRAYS)
    with safe_open(path, framework="numpy") as file:
        assert file.metadata()["format"] == "gaifman model"
        assert json.loads(file.metadata()["meta"]) == META
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    assert length % 8 == 0
    for entry in [entry for name, entry in json.loads(data[8 : 8 + length]).items() if name != "__metadata__"]:
        assert entry["data_offsets"][0] % DTYPES[entry["dtype"]].itemsize == 0


def test_another_process_writes_the_same_bytes() -> None:
    """Neither the order of dictionaries nor the seed of hashing may show."""
    code = (
        "import sys, numpy as np; from gaifman.io.model_file import model_bytes;"
        "names = list({'b', 'a', 'c', 'long name', 'é'});"
        "arrays = {n: np.full(3, len(n), np.int64) for n in names};"
        "data = model_bytes(arrays, {n: dict.fromkeys(names, 1) for n in names});"
        "print(data.hex())"
    )
    written = {
        run([sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, check=True).stdout
        for seed in "123"
    }
    assert len(written) == 1
    assert len(parse_model(bytes.fromhex(written.pop()))[0]) == 5


@pytest.mark.parametrize("order", ["C", "F"])
def test_memory_layout_does_not_show(order: str) -> None:
    plain = np.arange(12, dtype=np.float64).reshape(3, 4)
    wide = np.zeros((3, 8))
    wide[:, ::2] = plain
    laid = np.array(plain, order=order)  # type: ignore[call-overload]
    laid.flags.writeable = False
    assert model_bytes({"x": laid}, {}) == model_bytes({"x": plain}, {}) == model_bytes({"x": wide[:, ::2]}, {})


def test_every_changed_byte_is_refused() -> None:
    """All bytes, all values: whatever else the parser would make of them."""
    for place, original in enumerate(SMALL):
        for value in range(256):
            if value != original:
                with pytest.raises(InputError):
                    parse_model(SMALL[:place] + bytes([value]) + SMALL[place + 1 :])


def test_every_truncation_and_every_longer_file_is_refused() -> None:
    for length in range(len(SMALL)):
        with pytest.raises(InputError):
            parse_model(SMALL[:length])
    for extra in (b"\0", b" ", b"{}", SMALL):
        with pytest.raises(InputError):
            parse_model(SMALL + extra)
        with pytest.raises(InputError):
            parse_model(extra + SMALL)


def test_every_lost_or_doubled_or_swapped_byte_is_refused() -> None:
    for place in range(len(SMALL)):
        lost = SMALL[:place] + SMALL[place + 1 :]
        doubled = SMALL[: place + 1] + SMALL[place:]
        swapped = SMALL[:place] + SMALL[place : place + 2][::-1] + SMALL[place + 2 :]
        for data in (lost, doubled, swapped):
            if data != SMALL:
                with pytest.raises(InputError):
                    parse_model(data)


def test_files_are_checked_as_bytes_are(tmp_path: Path) -> None:
    path = tmp_path / "a.gaifman"
    for place in range(0, len(SMALL), 3):
        path.write_bytes(SMALL[:place] + bytes([SMALL[place] ^ 1 << place % 8]) + SMALL[place + 1 :])
        with pytest.raises(InputError):
            read_model(path)
        path.write_bytes(SMALL[:place])
        with pytest.raises(InputError):
            read_model(path)
    path.write_bytes(SMALL)
    assert read_model(path)[1] == {"a": [1, "é"]}


def changed_header(data: bytes, **changes: Any) -> bytes:
    """The same file with another header, which is well formed."""
    length = int.from_bytes(data[:8], "little")
    header = {**json.loads(data[8 : 8 + length]), **changes}
    text = json.dumps({name: entry for name, entry in header.items() if entry is not None}).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


def test_the_same_content_in_another_header_is_refused() -> None:
    """Spaces between the fields: the same to any parser of JSON."""
    with pytest.raises(InputError, match="header was changed"):
        parse_model(changed_header(SMALL))


def metadata(data: bytes) -> dict[str, str]:
    length = int.from_bytes(data[:8], "little")
    return dict(json.loads(data[8 : 8 + length])["__metadata__"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": "1"}, "was trained by an earlier version: train again"),
        ({"version": "4"}, "was trained by an earlier version: train again"),
        ({"version": str(VERSION + 1)}, f"newer version: format {VERSION + 1}, this one reads {VERSION}"),
        ({"version": "17"}, "written by a newer version"),
        ({"version": "-1"}, "'-1' is not a version"),
        ({"format": "pt"}, "written by another program"),
        ({"more": "x"}, "unknown fields"),
        ({"checksum": "0" * 64}, "header was changed"),
    ],
)
def test_metadata_that_is_not_ours(changes: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        parse_model(changed_header(SMALL, __metadata__=metadata(SMALL) | changes))
    assert caught.value.hint or "train again" in caught.value.message


def test_a_model_of_the_first_version_is_refused() -> None:
    """The file was written by version 1, before the names of arrays and metadata changed."""
    old = Path(__file__).parents[2] / "support" / "fixtures" / "version_1.gaifman"
    message = rf"^{old} was trained by an earlier version: train again$"
    for read in (read_model, gaifman.load):
        with pytest.raises(InputError, match=message):
            read(old)


def forged(meta: str, content: dict[str, npt.NDArray[Any]] | None = None) -> bytes:
    """A file whose checksum is right, made by someone who knows how."""
    from gaifman.io import model_file as modelfile

    content = content or {}
    strings = {
        "checksum": modelfile._checksum(meta, content),
        "format": modelfile.FORMAT,
        "meta": meta,
        "version": str(modelfile.VERSION),
    }
    raw = b"".join(content[name].tobytes() for name in modelfile._order(content))
    return modelfile._header(strings, content) + raw


@pytest.mark.parametrize(
    "meta",
    [
        *("", "[]", "1", '{"a": 1}', '{"b":1,"a":2}', '{"a":1,"a":1}', '{"a":NaN}', '{"a":1e999}', '{"a":"é"}'),
        *("[" * 100_000, '{"a":' * 5_000 + "1" + "}" * 5_000, '{"a":' + "1" * 5_000 + "}"),
    ],
    ids=lambda meta: meta[:12],
)
def test_descriptions_that_we_do_not_write_are_refused_also_with_their_checksum(meta: str) -> None:
    assert parse_model(forged('{"a":1}')) == ({}, {"a": 1})
    with pytest.raises(InputError, match="metadata"):
        parse_model(forged(meta))


def test_truth_values_are_0_or_1() -> None:
    with pytest.raises(InputError, match="neither 0 nor 1"):
        parse_model(forged("{}", {"x": np.array([0, 1, 2], np.uint8).view(bool)}))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"\x08", "not a model file"),
        (b"ann\tknows\tbob\n" * 5, "not a model file"),
        (b"\0" * 100, "not a model file"),
        (bytes(8) + b"{}", "damaged"),
        ((2).to_bytes(8, "little") + b"{}", "written by another program"),
        ((9).to_bytes(8, "little") + b'{"a": [1]' + b"}", "damaged"),
        (b"\xff" * 8 + b"{}", "cut off"),
        (save({"x": np.zeros(2)}), "written by another program"),
        (save({"x": np.zeros(2)}, {"format": "np"}), "written by another program"),
        (save({"x": np.zeros(2, np.float16)}, metadata(SMALL)), "an array of the type F16"),
        (SMALL[:-3], r"cut off: it has \d+ of \d+ bytes"),
        (SMALL + b"abc", "3 bytes too many"),
    ],
)
def test_errors_of_the_graph(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "m").write_bytes(data)
    with pytest.raises(InputError, match=message) as of_file:
        read_model(tmp_path / "m")
    with pytest.raises(InputError, match=message) as of_bytes:
        parse_model(data)
    assert of_file.value.hint == of_bytes.value.hint != ""


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "model.gaifman").write_bytes(SMALL)
    with pytest.raises(InputError, match="there is no file") as caught:
        read_model(tmp_path / "modle.gaifman")
    assert caught.value.suggestions == ("model.gaifman",)
    assert "gaifman train" in caught.value.hint
    with pytest.raises(InputError, match="is a folder"):
        read_model(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="not a regular file"):
        read_model(tmp_path / "pipe")


def test_a_shape_too_large_for_any_memory_is_refused() -> None:
    for shape in ([2**40, 2**40], [0, 2**63 - 1], [0] * 70, [-1], [1.5], "2", None):
        entry = {"dtype": "F32", "shape": shape, "data_offsets": [0, 8]}
        with pytest.raises(InputError):
            parse_model(changed_header(SMALL, w=entry))
        entry["data_offsets"] = [0, 0]
        with pytest.raises(InputError):
            parse_model(changed_header(SMALL, w=entry, b=None)[: -(8 + 1)])


@contextmanager
def memory_limit(limit: float) -> Iterator[None]:
    """Fail if Python and numpy take more bytes at once."""
    tracemalloc.start()
    try:
        yield
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < limit


def test_a_large_header_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """75 MB of header were once parsed to gigabytes of lists."""
    path = tmp_path / "m"
    for size, message in ((75_000_000, "75,000,000 bytes, more than 32,000,000"), (2**50, "cut off")):
        with path.open("wb") as file:
            file.write(size.to_bytes(8, "little") + b"{")
            file.truncate(8 + 75_000_000)
        with pytest.raises(InputError, match=message) as caught, memory_limit(1e6):
            read_model(path)
        assert caught.value.hint
    path.write_bytes(forged('{"a":[' + ",".join(["[]"] * 2_000_000) + "]}"))
    with pytest.raises(InputError, match=r"brackets, more than 2,000,000"), memory_limit(20e6):
        read_model(path)
    with pytest.raises(OutputError, match=r"brackets, more than 2,000,000"):
        model_bytes({}, {"a": [[]] * 2_000_000})


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(2), r"'x' must be float32 of shape \(any, 2\), got float64 of shape \(2,\)"),
        (np.zeros((3, 2), np.int32), "got int32"),
        (np.zeros((3, 3), np.float32), r"got float32 of shape \(3, 3\)"),
        (np.full((1, 2), np.inf, np.float32), "has numbers that are not finite"),
    ],
)
def test_arrays_of_another_type_or_shape_are_refused(array: npt.NDArray[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        require_array({"x": array}, "x", np.float32, (None, 2))
    with pytest.raises(InputError, match="'y' is missing"):
        require_array({"x": array}, "y", np.float32, (None, 2))
    assert require_array({"x": np.zeros((0, 2), np.float32)}, "x", np.float32, (None, 2)).shape == (0, 2)


@pytest.mark.parametrize("name", ["", "a\nb", "a\0", "\x7f", "\u202e", "\ud800", "__metadata__", 3])
def test_names_of_arrays_are_printable(name: str) -> None:
    with pytest.raises(OutputError, match="cannot have the name"):
        model_bytes({name: np.zeros(1)}, {})


@pytest.mark.parametrize("dtype", ["f2", "c16", "i1", "u4", "O", "U3", "M8[s]"])
def test_other_types_of_array_are_refused(dtype: str) -> None:
    with pytest.raises(OutputError, match="has the type"):
        model_bytes({"x": np.zeros(2, dtype)}, {})


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), np.float32("nan"), {1: 2}, {(1,): 2}, {3}, b"x", object(), np.zeros(2), 10**5000],
    ids=lambda value: type(value).__name__,
)
def test_what_json_cannot_hold_is_refused_and_nothing_is_written(tmp_path: Path, value: Any) -> None:
    for meta in ({"a": value}, {"a": [{"b": value}]}):
        with pytest.raises(OutputError):
            write_model(tmp_path / "m", {}, meta)
    assert list(tmp_path.iterdir()) == []


def test_a_nest_too_deep_is_refused() -> None:
    nest: list[Any] = []
    for _ in range(100_000):
        nest = [nest]
    with pytest.raises(OutputError):
        model_bytes({}, {"a": nest})


def test_numbers_of_numpy_and_tuples_are_kept_as_json_has_them() -> None:
    meta = {"a": np.float64(0.5), "b": np.int32(3), "c": (1, 2), "d": np.bool_(True), "e": np.float32(0.5)}
    assert parse_model(model_bytes({}, meta))[1] == {"a": 0.5, "b": 3, "c": [1, 2], "d": True, "e": 0.5}
    assert canonical_json({"b": 1, "a": {"d": None, "c": []}}) == '{"a":{"c":[],"d":null},"b":1}'


def test_hostile_names_come_back() -> None:
    meta = {"relations": [{"name": name} for name in (*HOSTILE, "\ud800")], **dict.fromkeys(HOSTILE, 1)}
    assert parse_model(model_bytes({}, meta))[1] == meta


def test_no_two_contents_share_a_checksum_by_how_they_are_joined() -> None:
    pieces = [
        {"a": np.array([1, 2], np.uint8)},
        {"a": np.array([1], np.uint8), "b": np.array([2], np.uint8)},
        {"b": np.array([1, 2], np.uint8)},
        {"a": np.array([[1, 2]], np.uint8)},
        {"a": np.array([[1], [2]], np.uint8)},
        {},
    ]
    sums = [metadata(model_bytes(piece, meta))["checksum"] for piece, meta in itertools.product(pieces, ({}, {"a": 1}))]
    assert len(set(sums)) == 12


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.gaifman"
    write_model(path, {}, {"old": True})
    with pytest.raises(OutputError):
        write_model(path, {"x": np.zeros(3, np.float16)}, {})
    assert read_model(path) == ({}, {"old": True})
    with pytest.raises(OutputError, match="no folder"):
        write_model(tmp_path / "nowhere" / "a.gaifman", {}, {})


def test_too_large_a_description_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gaifman.io.model_file.MAX_HEADER_BYTES", 1000)
    with pytest.raises(OutputError, match="more than 1,000"):
        model_bytes({}, {"a": "x" * 1000})


def test_a_file_replaced_while_it_is_opened_is_read_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.gaifman"
    write_model(path, {}, {"old": True})

    def slow(*arguments: Any, **options: Any) -> Any:
        monkeypatch.undo()
        write_model(path, {}, {"new": True})
        return safe_open(*arguments, **options)

    monkeypatch.setattr("gaifman.io.model_file.safe_open", slow)
    assert read_model(path)[1] == {"new": True}


def test_a_large_file_is_held_once(tmp_path: Path) -> None:
    """Of 200 MB, what belongs to the process alone; pages of the mapped file are the system's to take back."""
    path = tmp_path / "large.gaifman"
    write_model(path, {f"w{i}": np.full((5, 1 << 20), i, np.float32) for i in range(10)}, {})
    code = f"""
import threading, time
from gaifman.io.model_file import read_model
def own():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon")) / 1024
most, stop, before = [0.0], threading.Event(), own()
def watch():
    while not stop.wait(0.002):
        most[0] = max(most[0], own())
threading.Thread(target=watch).start()
kept = read_model({str(path)!r})
stop.set()
print(max(most[0], own()) - before)
"""
    done = run([sys.executable, "-c", code], check=True)
    assert 190 < float(done.stdout) < 260
