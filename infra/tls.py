"""The certificate of a run, with which its Dask scheduler, workers and clients recognise each other.

All share the same key and reject anyone without it: anyone who can connect to a scheduler or a worker can
run code as its user.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from distributed import Security

from storage_schemas.commit import write_atomic

#: Valid from this long ago, because clocks of nodes differ, and for longer than any run.
_BEFORE, _AFTER = timedelta(days=1), timedelta(days=365)

_CERTIFICATE, _KEY = "certificate.pem", "key.pem"


@dataclass(frozen=True)
class Credentials:
    """A self-signed certificate and its key: both as PEM, or as paths of files."""

    certificate: str
    key: str

    def security(self) -> Security:
        """Return Dask's settings for scheduler, workers and clients, which reject anyone else."""
        return Security(  # type: ignore[no-untyped-call]
            require_encryption=True,
            tls_ca_file=self.certificate,
            **{f"tls_{role}_cert": self.certificate for role in ("scheduler", "worker", "client")},
            **{f"tls_{role}_key": self.key for role in ("scheduler", "worker", "client")},
        )

    def write(self, folder: Path) -> None:
        """Write two files that only this user can read into a folder that only this user can open."""
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        files = credential_files(folder)
        write_atomic(Path(files.key), self.key.encode(), 0o600)
        write_atomic(Path(files.certificate), self.certificate.encode(), 0o600)


def credential_files(folder: Path) -> Credentials:
    """Return the paths of a run's certificate and key in its folder."""
    return Credentials(str(folder / _CERTIFICATE), str(folder / _KEY))


def new_credentials() -> Credentials:
    """Return a new certificate and its key.

    Dask's own ``Security.temporary`` is valid only from now, so a node with a slow clock rejects it.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "slvmeval-run")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BEFORE)
        .not_valid_after(now + _AFTER)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Credentials(certificate.public_bytes(pem).decode(), private.decode())
