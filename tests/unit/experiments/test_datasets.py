"""Data sets: found in folders, downloaded from a local server, checked, never half written."""

from __future__ import annotations

import gc
import gzip
import io
import sys
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from benchmark_data import DATA, NEEDED
from dataset_server import Reply, add, archive, giving, served, tiny
from gaifman.errors import GaifmanError, InputError, OutputError
from gaifman.experiments import datasets as downloads
from gaifman.experiments.datasets import (
    DATASETS,
    SPLIT_NAMES,
    cache_dir,
    download,
    file_digest,
    find_split_files,
    locate_dataset,
    text_digest,
)
from processes import PATIENCE
from small_experiments import data_set, lines

# urllib3 leaves the socket of a failed download to the garbage collector: it is collected before other tests run.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True, scope="module")
def _collect_sockets() -> Iterator[None]:
    yield
    gc.collect()


def fetched(reply: Reply, folder: Path) -> Path:
    with served(reply) as home:
        download(tiny(home), folder / "Tiny")
    return folder / "Tiny"


def refused(reply: Reply, folder: Path) -> GaifmanError:
    """The error; and nothing is left behind."""
    with pytest.raises(GaifmanError) as caught:
        fetched(reply, folder)
    assert list(folder.iterdir()) == []
    return caught.value


# Fetched


def test_an_archive_is_fetched_unpacked_and_checked(tmp_path: Path) -> None:
    folder = fetched(giving(archive()), tmp_path)
    assert sorted(path.name for path in folder.iterdir()) == ["test.txt.gz", "train.txt.gz", "valid.txt.gz"]
    assert gzip.decompress((folder / "test.txt.gz").read_bytes()).decode().splitlines() == lines()["test"]
    assert find_split_files(folder).is_published(tiny())
    assert [path.name for path in tmp_path.iterdir()] == ["Tiny"]


@pytest.mark.parametrize(("prefix", "ends"), [("", "\n"), ("a/b/", "\r\n"), ("./tiny/", "\n")])
def test_neither_folders_nor_ends_of_lines_matter(prefix: str, ends: str, tmp_path: Path) -> None:
    assert find_split_files(fetched(giving(archive(prefix, ends)), tmp_path)).is_published(tiny())


def test_the_same_facts_are_the_same_files(tmp_path: Path) -> None:
    one, two = (fetched(giving(archive()), tmp_path / name) for name in "ab")
    for part in SPLIT_NAMES:
        assert (one / f"{part}.txt.gz").read_bytes() == (two / f"{part}.txt.gz").read_bytes()


def test_progress_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "BLOCK_SIZE", 100)
    told: list[tuple[str, int, int | None]] = []
    with served(giving(archive())) as home:
        download(tiny(home), tmp_path / "Tiny", lambda *words: told.append(words))
    assert told[-1] == ("downloading Tiny", len(archive()), len(archive()))
    assert len(told) > 2


def test_without_a_length_it_is_read_to_the_end(tmp_path: Path) -> None:
    def reply(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(archive())

    assert find_split_files(fetched(reply, tmp_path)).is_published(tiny())


# Refused, one clear error each


def test_other_facts_are_refused(tmp_path: Path) -> None:
    other = io.BytesIO()
    with tarfile.open(fileobj=other, mode="w:gz") as packed:
        for part, own in lines().items():
            add(packed, f"tiny-{part}.txt", "\n".join(own[1:] if part == "valid" else own).encode(), True)
    error = refused(giving(other.getvalue()), tmp_path)
    assert "tiny-valid.txt" in error.message
    assert "its checksum differs" in error.message
    assert "--data-dir FOLDER" in error.hint


def test_a_download_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    body = archive()
    error = refused(giving(body[: len(body) // 2], len(body)), tmp_path)
    assert "cannot download" in error.message


def test_an_archive_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    body = archive()
    assert "not a complete archive" in refused(giving(body[: len(body) // 2]), tmp_path).message


@pytest.mark.parametrize("body", [b"", b"<html>moved</html>", b"\x1f\x8b nonsense"])
def test_other_content_than_an_archive_is_refused(body: bytes, tmp_path: Path) -> None:
    assert "not a complete archive" in refused(giving(body), tmp_path).message


def test_an_archive_without_a_part_is_refused(tmp_path: Path) -> None:
    assert "has no tiny-valid.txt" in refused(giving(archive(left_out="valid")), tmp_path).message


def test_a_missing_file_on_the_server_is_an_error(tmp_path: Path) -> None:
    error = refused(lambda handler: handler.send_error(404), tmp_path)
    assert "/tiny.tgz: Not Found" in error.message
    assert "FOLDER/Tiny" in error.hint


def test_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "MAX_BYTES", 100)
    monkeypatch.setattr(downloads, "BLOCK_SIZE", 10)
    assert "larger than 100 bytes" in refused(giving(archive()), tmp_path).message


def test_without_a_network_there_is_one_message(tmp_path: Path) -> None:
    with served(giving(b"")) as home:
        pass
    with pytest.raises(InputError, match=r"cannot download .*: .*Connection refused"):
        download(tiny(home), tmp_path / "Tiny")
    assert list(tmp_path.iterdir()) == []


def test_a_silent_server_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "TIMEOUT_SECONDS", 0.2)
    until = threading.Event()

    def silent(_: BaseHTTPRequestHandler) -> None:
        until.wait(PATIENCE)

    with served(silent) as home:
        with pytest.raises(InputError, match=r"cannot download .*: timed out"):
            download(tiny(home), tmp_path / "Tiny")
        until.set()
    assert list(tmp_path.iterdir()) == []


def test_without_pooch_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(InputError, match=r"pip install 'gaifman\[datasets\]', or put train") as caught:
        download(tiny(), tmp_path / "Tiny")
    assert "--data-dir FOLDER" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with served(giving(archive())) as home, pytest.raises(KeyboardInterrupt):
        download(tiny(home), tmp_path / "Tiny", stop)
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot write"):
        download(tiny(), tmp_path / "file" / "Tiny")


# Found


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, and no GAIFMAN_DATA."""
    monkeypatch.delenv("GAIFMAN_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_the_named_folder_comes_first(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data_set(nowhere / "named")
    monkeypatch.setenv("GAIFMAN_DATA", str(data_set(nowhere / "given")))
    assert locate_dataset(DATASETS["wn18"], str(nowhere / "named")).train == nowhere / "named" / "WN18" / "train.txt.gz"
    assert locate_dataset(DATASETS["wn18"]).test == nowhere / "given" / "WN18" / "test.txt.gz"


def test_a_named_folder_without_it_is_an_error(nowhere: Path) -> None:
    with pytest.raises(InputError, match=r"there is no file .*train\.txt\.gz") as caught:
        locate_dataset(DATASETS["wn18"], str(nowhere / "named"))
    assert "valid.txt.gz and test.txt.gz: tab-separated triples" in caught.value.hint


def test_a_missing_part_is_named(nowhere: Path) -> None:
    data_set(nowhere / "named")
    (nowhere / "named" / "WN18" / "valid.txt.gz").unlink()
    with pytest.raises(InputError, match=r"there is no file .*valid\.txt\.gz"):
        locate_dataset(DATASETS["wn18"], str(nowhere / "named"))


def test_what_gaifman_data_has_not_is_fetched_into_the_cache_once(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GAIFMAN_DATA", str(nowhere))
    with served(giving(archive())) as home:
        first = locate_dataset(tiny(home))
    assert (
        first.train == nowhere / "cache" / "gaifman" / "Tiny" / "train.txt.gz" == cache_dir() / "Tiny" / "train.txt.gz"
    )
    assert locate_dataset(tiny(home)) == first, "the server is gone, and not asked"


def test_the_cache_is_in_the_home_folder(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(nowhere))
    assert cache_dir() == nowhere / ".cache" / "gaifman"


def test_files_may_be_unpacked(nowhere: Path) -> None:
    files = locate_dataset(replace(tiny(), folder="WN18"), str(data_set(nowhere / "named", packed=False)))
    assert files.train.name == "train.txt"
    assert files.is_published(tiny())


# Checksums


def test_the_checksum_is_of_the_facts(tmp_path: Path) -> None:
    texts = [b"a\tr\tb\nb\tr\tc\n", b"b\tr\tc\r\na\tr\tb", b"\nb\tr\tc\n\na\tr\tb\n"]
    assert len({text_digest(text) for text in texts}) == 1
    assert text_digest(b"a\tr\tb\n") != text_digest(b"a\tr\tb\na\tr\tb\n")
    (tmp_path / "plain").write_bytes(texts[0])
    (tmp_path / "packed").write_bytes(gzip.compress(texts[1]))
    assert file_digest(tmp_path / "plain") == file_digest(tmp_path / "packed") == text_digest(texts[0])


def test_a_damaged_file_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "bad.gz").write_bytes(gzip.compress(b"a\tr\tb\n" * 100)[:-20])
    with pytest.raises(InputError, match=r"bad\.gz"):
        file_digest(tmp_path / "bad.gz")


def test_other_facts_are_not_the_published_ones(tmp_path: Path) -> None:
    assert not find_split_files(data_set(tmp_path) / "WN18").is_published(DATASETS["wn18"])


@pytest.mark.parametrize("name", DATASETS)
def test_every_set_has_a_home_and_three_checksums(name: str) -> None:
    data = DATASETS[name]
    assert data.url.startswith("https://")
    assert "{}" in data.member_pattern
    assert [len(data.digests[part]) for part in SPLIT_NAMES] == [64, 64, 64]


class TestPublished:
    """Needs the data."""

    pytestmark = NEEDED

    @pytest.mark.parametrize("name", DATASETS)
    def test_the_facts_here_are_the_published_ones(self, name: str) -> None:
        assert find_split_files(DATA / DATASETS[name].folder).is_published(DATASETS[name])
