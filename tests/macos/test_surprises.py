"""What macOS does in other ways than people expect: directories that change while they are read, proxies of the system."""

from __future__ import annotations

from tests.macos.mac import Mac

REMOVE_MANY = """
from pathlib import Path
from logist.store import files
for name in ("many", "many/below"):
    Path(name).mkdir()
    for number in range(40):
        Path(name, str(number)).touch()
files.remove_tree(Path("many"))
"""


def test_a_directory_with_many_files_is_removed(mac: Mac) -> None:
    """Removing files while a directory is read makes macOS skip others."""
    done = mac.run_python("-c", REMOVE_MANY)
    assert (done.code, done.err, (mac.project / "many").exists()) == (0, "", False)


CLIENTS = """
from logist.agents.clients.direct import open_client
for url in ("http://localhost:1/v1", "http://[::1]:1/v1", "http://models.inside.example/v1", "http://other.example/v1"):
    with open_client(url, 1.0) as client:
        print(bool(client._mounts))
"""


def test_proxies_of_the_system_are_used_except_for_this_machine_and_its_exceptions(mac: Mac) -> None:
    asked = mac.run_python("-c", CLIENTS)
    assert (asked.out.split(), asked.err) == (["False", "False", "False", "True"], "")
    asked = mac.run_python("-c", CLIENTS, env={"http_proxy": "http://127.0.0.1:2"})
    assert asked.out.split() == ["True"] * 4  # httpx itself knows NO_PROXY
