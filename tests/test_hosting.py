"""An application at an address."""

from __future__ import annotations

import pytest

from gaifman.errors import GaifmanError
from gaifman.hosting import bound, is_loopback, url


def test_a_port_that_is_taken_is_said() -> None:
    with bound("127.0.0.1", 0) as one:
        one.listen()
        with pytest.raises(GaifmanError, match="there is no serving at 127"):
            bound("127.0.0.1", one.getsockname()[1])


@pytest.mark.parametrize("host", ["no such host", "999.1.1.1", "a" * 300])
def test_a_host_that_is_none_is_said(host: str) -> None:
    with pytest.raises(GaifmanError, match="there is no serving"):
        bound(host, 0)


def test_addresses() -> None:
    with bound("127.0.0.1", 0) as found:
        assert url(found) == f"http://127.0.0.1:{found.getsockname()[1]}/"
        assert is_loopback(found)
    with bound("0.0.0.0", 0) as found:
        assert url(found).startswith("http://127.0.0.1:")
        assert not is_loopback(found)
