"""A model server that is given by its address, not by a name of the profile."""

from __future__ import annotations

import pytest

from storage_schemas.errors import UserInputError
from storage_schemas.secrets import strike_out
from tasks.llm.servers import Servers


@pytest.mark.parametrize(
    "address", ["http://h", "https://h:8000/v1", "http://[::1]:8000", "http://10.0.0.1:1/a/b"]
)
def test_find_takes_an_address(address: str) -> None:
    server = Servers().find(address, "m")
    assert (server.name, server.url, server.model) == (address, address, "m")


@pytest.mark.parametrize(
    ("address", "says"),
    [
        *((one, "must begin with http:// or https://") for one in ("ftp://h", "HTTP://h:1", " http://h")),
        *(
            (one, "http://HOST, optionally with a port and a path")
            for one in (
                "http://",
                "http://a b:1",
                "http://[::1:8000",
                "http://h:99999",
                "http://h:x",
                "http://h/?x=1",
            )
        ),
    ],
)
def test_find_refuses_other_addresses(address: str, says: str) -> None:
    with pytest.raises(UserInputError, match=says):
        Servers().find(address, "m")


def test_find_refuses_a_password_that_would_be_stored_and_does_not_show_it() -> None:
    with pytest.raises(UserInputError, match=r"would be stored with the answers") as problem:
        Servers().find("http://user:secretpw@h:1/v1", "m")
    assert "secretpw" not in strike_out(str(problem.value))
    assert "secretpw" not in str(problem.value)
