"""Each way by which a secret could reach a file, a log or a message."""

from __future__ import annotations

import base64
import json
import logging
import pickle
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from storage_schemas import secrets
from storage_schemas.errors import PrerequisiteError, Reason, SetAside
from storage_schemas.json_lines import LinesFile, LinesFolder
from storage_schemas.model import Frozen, ModelServer
from storage_schemas.row_store import RowStore
from storage_schemas.secrets import know, know_address, strike_out, strike_out_of_logs, struck_out_errors
from storage_schemas.set_aside import SetAsideRow, append_failures, known_failures
from storage_schemas.store import Store
from tasks.llm.answer_store import AnswerStore, StoredAnswer

KEY = 'sk-0123"456789+/é'


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "_reported", {})
    monkeypatch.setenv("SOME_API_KEY", KEY)


class Row(Frozen):
    text: str
    password: int = 0


@pytest.mark.parametrize(
    "spelled",
    [
        KEY,
        json.dumps(KEY),
        json.dumps(KEY, ensure_ascii=False),
        "https://x/?key=sk-0123%22456789%2B%2F%C3%A9",
        base64.b64encode(KEY.encode()).decode(),
    ],
)
def test_a_secret_is_removed_however_it_is_spelled(spelled: str) -> None:
    assert "456789" not in strike_out(f"no: {spelled}.")
    assert "[SOME_API_KEY removed]" in strike_out(f"no: {spelled}.")


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("PREFECT_API_AUTH_STRING", "admin:p4ssw0rd-x", "p4ssw0rd-x"),
        ("PREFECT_API_AUTH_STRING", "admin:p4", base64.b64encode(b"admin:p4").decode()),
        ("PREFECT_API_DATABASE_CONNECTION_URL", "postgresql+asyncpg://me:p%40ssw0rd-x@db/x", "p@ssw0rd-x"),
        ("ANYTHING", "https://me:p4ss:w0rd-x@host/v1", "p4ss:w0rd-x"),
        ("PGPASSWORD", "p4ssw0rd-x", "p4ssw0rd-x"),
        ("HF_TOKEN", "hf_abcdefgh", "hf_abcdefgh"),
        ("AWS_SECRET_ACCESS_KEY", "/ab1cd2+ef3", "/ab1cd2+ef3"),
        ("LONG_KEY", "/" + 300 * "a", "/" + 300 * "a"),
    ],
    # pytest puts the name of a test into a variable
    ids=range(8),
)
def test_variables_hold_secrets(name: str, value: str, secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    assert strike_out(f"<{secret}>") == f"<[{name} removed]>"


def test_what_is_not_a_secret_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_KEY", str(tmp_path))
    monkeypatch.setenv("MODEL_KEY", "none")
    monkeypatch.setenv("PREFECT_API_URL", "http://head:4200/api")
    text = f"none of {tmp_path} at http://head:4200/api"
    assert strike_out(text) is text


def test_a_reported_secret_is_removed_and_the_longer_one_first() -> None:
    know("abcdefgh", "short")
    know("abcdefgh-ijk", "long")
    know_address("postgresql://me:hidden-word@db/desk", "database password")
    assert strike_out("abcdefgh-ijk abcdefgh hidden-word") == (
        "[long removed] [short removed] [database password removed]"
    )
    ModelServer.model_validate("http://me:seen-by-all@gpu:8000")
    assert "seen-by-all" not in strike_out("http://me:seen-by-all@gpu:8000")


class Rows(RowStore):
    schema = pa.schema([("text", pa.string())])


def test_whatever_is_written_has_no_secrets(tmp_path: Path, store: Store) -> None:
    lines = LinesFile(tmp_path / "a", "task")
    lines.add(Row(text=KEY))
    lines.close()
    (path,) = (tmp_path / "a").iterdir()
    folder = LinesFolder(tmp_path / "b", Row, "lost")
    folder.append(Row(text=KEY))
    folder.close()
    rows = Rows(tmp_path / "c")
    rows.add([Row(text=KEY)])
    AnswerStore(tmp_path / "d").get_or_make("k", lambda: StoredAnswer(key="k", text=KEY, model="m"))
    (stored,) = AnswerStore(tmp_path / "d")._read().values()
    failure = SetAsideRow(source_id="s", stage="x", reason=Reason.NO_FRAMES, message=KEY, key="k")
    append_failures(store, [failure])
    found = [json.loads(path.read_text())["text"], *(row.text for row in folder.rows())]
    found += [*rows.all_rows()["text"].to_pylist(), stored.text, known_failures(store)["k"].message]
    assert found == ["[SOME_API_KEY removed]"] * 5


def test_password_of_digits_leaves_rows_readable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_PASSWORD", "12345678")
    monkeypatch.setenv("B_PASSWORD", "password")
    row = Row(text="12345678 password", password=12345678)
    folder = LinesFolder(tmp_path, Row, "lost")
    folder.append(row)
    folder.close()
    clean = Row(text="[A_PASSWORD removed] [B_PASSWORD removed]", password=12345678)
    assert list(folder.rows()) == [clean]
    assert secrets.strike_out_row(row.model_dump(mode="json")) == clean.model_dump()


def test_errors_have_no_secrets_also_in_another_process() -> None:
    assert str(PrerequisiteError(f"refused {KEY}")) == "refused [SOME_API_KEY removed]"
    problem = pickle.loads(pickle.dumps(SetAside(Reason.INTERNAL_ERROR, f"odd {KEY}")))
    assert (problem.reason, problem.message) == (Reason.INTERNAL_ERROR, "odd [SOME_API_KEY removed]")
    with pytest.raises(ValueError, match=r"^outer \[SOME_API_KEY removed\]$") as caught, struck_out_errors():
        try:
            raise KeyError(KEY)
        except KeyError as problem:
            raise ValueError(f"outer {KEY}") from problem
    assert str(caught.value.__cause__) == "'[SOME_API_KEY removed]'"


@pytest.fixture
def clean_logs() -> Iterator[None]:
    before = logging.getLogRecordFactory()
    strike_out_of_logs()
    strike_out_of_logs()
    yield
    logging.setLogRecordFactory(before)


@pytest.mark.usefixtures("clean_logs")
def test_logs_have_no_secrets(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("anyone")
    log.warning("refused %s by %s", KEY, "a server")
    try:
        raise ValueError(KEY)
    except ValueError:
        log.exception("failed")
    log.warning("100 %s", "percent")
    assert "456789" not in caplog.text
    assert "refused [SOME_API_KEY removed] by a server" in caplog.text
    assert "ValueError: [SOME_API_KEY removed]" in caplog.text
    assert caplog.records[-1].args == ("percent",)
