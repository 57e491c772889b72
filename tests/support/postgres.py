"""A PostgreSQL server for tests, in a temporary folder, on a free port of this machine and a socket in the folder.

It refuses to run as root, so root starts it as another user. Linux stops it with the test process, however that ends.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from processes import child, run, wait_until

ADMIN = "gaifman_admin"
"""The superuser, who needs no password on the socket."""
READER, PASSWORD = "reader", "p@ss/w%rd ☃"
"""A user who must give a password on the port."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    folder: Path
    port: int

    def admin_url(self, database: str = "postgres") -> str:
        """The URL of a database for the superuser, by the socket."""
        return f"postgresql://{ADMIN}@/{database}?host={self.folder}&port={self.port}"

    def execute(self, *statements: str, database: str = "postgres") -> None:
        """Run statements as the superuser."""
        import adbc_driver_manager as adbc
        import adbc_driver_postgresql

        with ExitStack() as stack:
            uri = self.admin_url(database)
            opened = stack.enter_context(
                closing(adbc.AdbcDatabase(driver=adbc_driver_postgresql._driver_path(), uri=uri))
            )
            connection = stack.enter_context(closing(adbc.AdbcConnection(opened)))
            for text in statements:
                with closing(adbc.AdbcStatement(connection)) as statement:
                    statement.set_sql_query(text)
                    statement.execute_update()

    def create_database(self, name: str, *statements: str) -> str:
        """Make a database by statements, replacing one of the same name, and return its URL for the superuser."""
        self.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        self.execute(f'CREATE DATABASE "{name}"')
        self.execute(*statements, database=name)
        return self.admin_url(name)


def find_program(name: str) -> Path | None:
    """A program of PostgreSQL: Debian keeps those of the server out of the path."""
    found = shutil.which(name)
    if found:
        return Path(found).resolve()
    return max(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), default=None)


def _missing() -> str:
    """Why no server can be started; "" if one can be."""
    if find_program("postgres") is None or find_program("initdb") is None:
        return "PostgreSQL is not installed. As root: apt-get install postgresql"
    if os.getuid() == 0 and (_other_user() is None or not shutil.which("setpriv")):
        return "PostgreSQL does not run as root, and there is no user postgres or nobody, or no program setpriv"
    return ""


def _other_user() -> pwd.struct_passwd | None:
    known = {user.pw_name: user for user in pwd.getpwall()}
    return known.get("postgres") or known.get("nobody")


def _as_user(words: Sequence[str | Path]) -> list[str]:
    """The command as a user who is not root. A change of the user makes Linux forget who ends with whom."""
    given = [str(word) for word in words]
    user = _other_user()
    if os.getuid() != 0 or user is None:
        return given
    ids = [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--pdeathsig=INT"]
    return ["setpriv", *ids, "--", *given]


@contextmanager
def server() -> Iterator[Server]:
    """Start a server and stop it on leaving; the test is skipped where none can be started."""
    if reason := _missing():
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="gaifman-postgres-", ignore_cleanup_errors=True) as name:
        folder, user = Path(name), _other_user()
        if os.getuid() == 0 and user is not None:
            os.chown(folder, user.pw_uid, user.pw_gid)
        data, programs = folder / "data", [find_program("initdb"), find_program("postgres")]
        words: list[Any] = [programs[0], "--pgdata", data, "--username", ADMIN, "--auth-local=trust"]
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "TZ": "UTC"}
        words += ["--auth-host=scram-sha-256", "--no-sync", "--encoding=UTF8", "--no-locale"]
        run(_as_user(words), env=environment, cwd=folder, check=True)
        port = _free_port()
        settings = ["listen_addresses=127.0.0.1", "fsync=off", f"unix_socket_directories={folder}", f"port={port}"]
        words = [programs[1], "-D", data, *(word for setting in settings for word in ("-c", setting))]
        with (
            (folder / "log").open("w") as log,
            child(_as_user(words), env=environment, cwd=folder, stdout=log, stderr=log) as process,
        ):
            try:
                _wait_until_ready(folder, process)
                found = Server(folder, port)
                found.execute(f"CREATE ROLE {READER} LOGIN PASSWORD '{PASSWORD}'")
                yield found
            finally:
                process.send_signal(signal.SIGINT)  # ends the sessions, and leaves no shared memory
                process.wait(60)


def _wait_until_ready(folder: Path, process: Any) -> None:
    def is_ready() -> bool:
        log = (folder / "log").read_text()
        assert process.poll() is None, f"PostgreSQL ended:\n{log}"
        return "database system is ready" in log

    wait_until(is_ready)


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port
