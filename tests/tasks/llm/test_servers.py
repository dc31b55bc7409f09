"""Model servers: addresses in place of names of the profile, and certificates of a site's own authority."""

from __future__ import annotations

import http.server
import ipaddress
import ssl
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from storage_schemas.errors import UserInputError
from storage_schemas.secrets import strike_out
from tasks.llm.servers import ChatServer, Servers, _tls, json_client, list_models


class _Models(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b'{"data": [{"id": "small"}]}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def _certificate(folder: Path) -> Path:
    """Write key and certificate of 127.0.0.1, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(datetime.now(UTC) - timedelta(days=1))
    made = made.not_valid_after(datetime.now(UTC) + timedelta(days=1))
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    made = made.add_extension(x509.SubjectAlternativeName([address]), critical=False)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / "server.pem"
    path.write_bytes(made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM) + secret)
    return path


def test_servers_of_the_local_network_are_trusted_by_ssl_cert_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = _certificate(tmp_path)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Models) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        asked = ChatServer(name="s", url=f"https://127.0.0.1:{server.server_port}/v1", model="small")
        try:
            with pytest.raises(ConnectionError, match="CERTIFICATE_VERIFY_FAILED"):
                list_models(asked)
            monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
            _tls.cache_clear()
            assert list_models(asked) == ["small"]
        finally:
            _tls.cache_clear()
            server.shutdown()


def test_clients_share_one_trust() -> None:
    first, second = (
        ChatServer(name="s", url=url, model="m") for url in ("http://127.0.0.1:1", "https://a.b")
    )
    _tls.cache_clear()
    with json_client(first), json_client(second):
        assert (_tls.cache_info().misses, _tls.cache_info().hits) == (1, 1)


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
