"""A scheduler and its workers accept nobody without the certificate of the run."""

from __future__ import annotations

import signal
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
from cryptography import x509
from distributed import Client, LocalCluster

from infra.dask_cluster import local_cluster
from infra.slurm.worker_checks import WorkerChecks
from infra.tls import credential_files, new_credentials
from tests.infra.strangers import refused


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with local_cluster(1) as cluster:
        yield cluster


def test_strangers_are_refused_and_we_are_not(cluster: LocalCluster) -> None:
    with Client(cluster) as client:
        assert client.submit(sum, [1, 2]).result() == 3
        assert client.submit(signal.getsignal, signal.SIGINT).result() == signal.SIG_IGN, "left to the driver"
        (worker,) = client.scheduler_info()["workers"]
    for address in (cluster.scheduler_address, worker):
        assert address.startswith("tls://127.0.0.1:")
        assert not refused(address, cluster.security)
        assert refused(address.replace("tls://", "tcp://"))
        # somebody who has a certificate, but not this run's
        assert refused(address, new_credentials().security())


def test_no_port_has_pages_unless_asked_for(cluster: LocalCluster) -> None:
    ports = {
        connection.laddr.port
        for process in psutil.Process().children(recursive=True)
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }
    # the worker's ports, for work and for pages
    assert len(ports) >= 2
    for port in {*ports, urlsplit(cluster.dashboard_link).port}:
        for page in ("info/main/workers.html", "metrics", "health", "json/counts.json"):
            refused = pytest.raises((urllib.error.URLError, ConnectionResetError), match=r"404|reset|refused")
            with refused as problem:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=10)
            if isinstance(problem.value, urllib.error.HTTPError):
                problem.value.close()


def test_pages_that_were_asked_for_are_on_loopback() -> None:
    with local_cluster(0, dashboard_port=0) as cluster:
        assert cluster.dashboard_link.startswith("http://127.0.0.1:")
        address = f"{cluster.dashboard_link.removesuffix('/status')}/info/main/workers.html"
        with urllib.request.urlopen(address) as page:
            assert page.status == 200
        # as docs/monitoring.md says
        with urllib.request.urlopen(f"{cluster.dashboard_link.removesuffix('/status')}/metrics") as page:
            numbers = page.read().decode()
        assert 'dask_scheduler_workers{state="idle"} 0.0' in numbers
        assert 'dask_scheduler_tasks{state="no-worker"}' in numbers


def test_the_files_are_this_users_alone(tmp_path: Path) -> None:
    credentials = new_credentials()
    credentials.write(tmp_path / "run")
    files = credential_files(tmp_path / "run")
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o700
    for path, content in ((files.certificate, credentials.certificate), (files.key, credentials.key)):
        assert Path(path).stat().st_mode & 0o777 == 0o600
        assert Path(path).read_text() == content
    check = WorkerChecks("cpu", "profile").credentials
    assert check((files.certificate, files.key), wait_s=0) == []
    (missing,) = check((files.certificate, f"{tmp_path}/none"), wait_s=0)
    assert missing.startswith(
        f"the run's certificate {tmp_path}/none cannot be read on this node (No such file"
    )


def test_a_node_whose_clock_is_slow_accepts_the_certificate() -> None:
    certificate = x509.load_pem_x509_certificate(new_credentials().certificate.encode())
    assert certificate.not_valid_before_utc.timestamp() < time.time() - 3600
