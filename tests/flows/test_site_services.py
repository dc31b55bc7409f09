"""The services of compose.yaml and site.yaml as processes: their commands, variables, order, checks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from tests.flows.compose_files import FOLDER, services
from tests.flows.deployed_site import RECIPE, AddFilm, run, settled, shows_first_build
from tests.flows.postgres import postgres_programs, running_postgres
from tests.flows.prefect_servers import PrefectServer, free_port, wait_for

PROGRAMS = postgres_programs()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("prefect-server"),
    pytest.mark.skipif(
        PROGRAMS is None, reason="PostgreSQL is not installed (Debian: apt-get install postgresql)"
    ),
]

FILES = ("compose.yaml", "site.yaml")
BIN = Path(sys.executable).parent
VARIABLES = {
    "POSTGRES_PASSWORD": "p w:/@#",
    "PREFECT_AUTH": "me:a-secret-word",
    "MODEL_SERVER_KEY": "key-of-the-model-server",
    "ORGANISER_SECRET": "secret-of-the-organiser",
    "DATA": "/data",
}


def names_of(path: Path) -> set[str]:
    """Return the variables that a file of variables has, also those in comments."""
    return set(re.findall(r"^#?([A-Z_]+)=", path.read_text(encoding="utf-8"), re.MULTILINE))


def test_every_variable_is_explained_and_no_secret_has_a_default() -> None:
    text = "".join((FOLDER / name).read_text(encoding="utf-8") for name in FILES)
    assert set(re.findall(r"\$\{([A-Z_]+)", text)) == names_of(FOLDER / "env.example")
    for name in ("POSTGRES_PASSWORD", "PREFECT_AUTH", "MODEL_SERVER_KEY", "ORGANISER_SECRET"):
        assert set(re.findall(rf"\$\{{{name}(..)", text)) == {":?"}
    assert (
        subprocess.run(
            ["git", "check-ignore", "-q", str(FOLDER / ".env")], check=False, cwd=FOLDER
        ).returncode
        == 0
    )


def test_ports_are_on_loopback_unless_asked_and_all_that_is_waited_for_exists() -> None:
    everything = services(VARIABLES, *FILES)
    published = [port for service in everything.values() for port in service.get("ports", ())]
    assert len(published) == 2
    assert all(port.startswith("127.0.0.1:") for port in published)
    for name, service in everything.items():
        for other, how in service.get("depends_on", {}).items():
            checked = "healthcheck" in everything[other]
            assert checked == (how["condition"] == "service_healthy"), (name, other)


class Site:
    """The services on this machine: other addresses, folders and programs, the rest as in the files."""

    def __init__(self, server: PrefectServer, folder: Path, variables: dict[str, str]) -> None:
        self.server, self.folder = server, folder
        self.ports = {"server": server.port, "model-server": free_port(), "worker": free_port()}
        self.ports["annotation"] = free_port()
        self.services = services(variables, *FILES)

    def here(self, value: str) -> str:
        """Return a value of the files as it is on this machine."""
        for name, inside in (
            ("server", 4200),
            ("model-server", 8000),
            ("worker", 8080),
            ("annotation", 8017),
        ):
            value = re.sub(rf"//(127\.0\.0\.1|{name}):{inside}\b", f"//127.0.0.1:{self.ports[name]}", value)
        value = value.replace("/opt/slvmeval/bin/python", sys.executable)
        return value.replace("/opt/slvmeval/bin", str(BIN)).replace("/data", str(self.folder))

    def environment(self, name: str) -> dict[str, str]:
        given = {key: self.here(value) for key, value in self.services[name]["environment"].items()}
        if "PREFECT_HOME" in given:
            given["PREFECT_HOME"] = str(self.folder / name)
        bare = {
            key: value for key, value in os.environ.items() if not key.startswith(("PREFECT_", "SLVMEVAL_"))
        }
        own = {
            "PREFECT_WORKER_WEBSERVER_PORT": str(self.ports["worker"]),
            "PREFECT_WORKER_QUERY_SECONDS": "1",
        }
        return {**bare, **given, **own, "PYTHONPATH": str(FOLDER.parents[1]), "HOME": os.environ["HOME"]}

    def command(self, name: str) -> list[str]:
        service = self.services[name]
        words = [*service.get("entrypoint", ["/opt/slvmeval/bin/slvmeval"]), *service["command"]]
        words = ["127.0.0.1" if word == "0.0.0.0" else self.here(word) for word in words]
        if name == "model-server":
            words[words.index("8000")] = str(self.ports[name])
        return [*words, "--port", str(self.ports[name])] if name == "annotation" else words

    def start(self, name: str) -> subprocess.Popen[bytes]:
        processes = self.server.processes
        before, processes.environment = processes.environment, self.environment(name)
        try:
            return processes.start(f"{name}.log", *self.command(name))
        finally:
            processes.environment = before

    def healthy(self, name: str) -> bool:
        _, *test = self.services[name]["healthcheck"]["test"]
        ran = subprocess.run([self.here(word) for word in test], capture_output=True, check=False)
        return ran.returncode == 0


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, add_film: AddFilm) -> Iterator[Site]:
    assert PROGRAMS is not None
    folder = tmp_path_factory.mktemp("site")
    settings = services(VARIABLES, *FILES)["server"]["environment"]
    part = "PREFECT_SERVER_DATABASE_"
    user, password, name = (settings[part + what] for what in ("USER", "PASSWORD", "NAME"))
    with running_postgres(PROGRAMS, user, password, name) as port:
        settings |= {f"{part}HOST": "127.0.0.1", f"{part}PORT": str(port)}
        auth = settings["PREFECT_SERVER_API_AUTH_STRING"]
        server = PrefectServer(folder / "server", auth=auth, **settings)
        tables = services(VARIABLES, *FILES)["tables"]["command"].split()
        server.processes.run(str(BIN / tables[0]), *tables[1:])
        with server:
            data = folder / "data"
            data.mkdir()
            result = Site(server, data, VARIABLES)
            profile = (FOLDER / "site.example.toml").read_text(encoding="utf-8")
            (data / "site.toml").write_text(result.here(profile) + "\n", encoding="utf-8")
            (data / "recipe.toml").write_text(RECIPE, encoding="utf-8")
            settled(add_film(data / "videos", 1))
            yield result


@pytest.mark.xdist_group("site")
def test_the_whole_comes_up_in_its_order_and_builds(site: Site) -> None:
    """Model server, deployments, worker, a run of the main deployment; pages once there is a campaign."""
    site.start("model-server")
    wait_for(lambda: site.healthy("model-server"), 60, "model server", 1.0)
    assert site.start("deploy").wait(300) == 0, (site.server.processes.folder / "deploy.log").read_text()
    assert (site.server.processes.folder / "deploy.log").read_text().count("(created)") == 9
    site.start("worker")
    wait_for(lambda: site.healthy("worker"), 120, "worker", 1.0)

    profile, recipe = site.folder / "site.toml", site.folder / "recipe.toml"
    ran = run(site.server, "build-slvmeval", "--set", f"recipe={recipe}", profile=str(profile), here=False)
    shows_first_build(site.server, ran, "compose", site.folder / "store")
    assert (site.folder / "gallery" / "index.html").is_file()

    pages = site.start("annotation")
    assert pages.wait(120) != 0
    assert "annotate publish" in (site.server.processes.folder / "annotation.log").read_text()
    site.server.slvmeval_here("annotate", "publish", "main", "--private", "--profile", str(profile))
    command = [*site.command("annotation"), "--private"]
    with subprocess.Popen(command, env=site.environment("annotation"), cwd=site.folder) as process:
        try:
            wait_for(lambda: site.healthy("annotation"), 120, "annotation pages", 1.0)
        finally:
            process.terminate()


@pytest.mark.xdist_group("site")
def test_the_servers_ask_for_their_secrets(site: Site) -> None:
    if not site.healthy("model-server"):
        site.start("model-server")
        wait_for(lambda: site.healthy("model-server"), 60, "model server", 1.0)
    url = f"http://127.0.0.1:{site.ports['model-server']}/v1"
    with openai.OpenAI(base_url=url, api_key=VARIABLES["MODEL_SERVER_KEY"]) as client:
        assert [model.id for model in client.models.list()] == ["stand-in"]
    for address in (f"{url}/models", f"{site.server.api}/flows/count"):
        with pytest.raises(urllib.error.HTTPError, match="401") as refused:
            urllib.request.urlopen(address, data=b"{}" if "flows" in address else None)
        refused.value.close()
