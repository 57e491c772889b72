"""A data set in an archive, and a server on this machine that gives it away."""

from __future__ import annotations

import io
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from gaifman.experiments.datasets import Dataset, text_digest
from small_experiments import lines

Reply = Callable[[BaseHTTPRequestHandler], None]


def archive(prefix: str = "tiny/", ends: str = "\n", left_out: str = "") -> bytes:
    """An archive of the same form as the real ones, with a file more."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as packed:
        for part, own in lines().items():
            add(packed, f"{prefix}tiny-{part}.txt", "".join(f"{line}{ends}" for line in own).encode(), part != left_out)
        add(packed, f"{prefix}README", b"what it is", True)
    return file.getvalue()


def add(packed: tarfile.TarFile, name: str, text: bytes, wanted: bool) -> None:
    if wanted:
        about = tarfile.TarInfo(name)
        about.size = len(text)
        packed.addfile(about, io.BytesIO(text))


def tiny(home: str = "") -> Dataset:
    digests = {part: text_digest("\n".join(own).encode()) for part, own in lines().items()}
    return Dataset("Tiny", home, "tiny-{}.txt", digests)


@contextmanager
def served(reply: Reply) -> Iterator[str]:
    """The address of a server on this machine that answers so."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            reply(self)

        def log_message(self, *_: object) -> None:
            """Nothing is printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False  # so that closing it waits for its last answer
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/tiny.tgz"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def giving(body: bytes, length: int | None = None) -> Reply:
    def reply(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body) if length is None else length))
        handler.end_headers()
        handler.wfile.write(body)

    return reply
