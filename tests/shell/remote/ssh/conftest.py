"""A real sshd for the tests of this folder."""

from collections.abc import Iterator

import pytest

pytest.importorskip("asyncssh", reason="asyncssh is not installed")

from tests.shell.remote.ssh.server import SshServer, start_server


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    """One server for all tests that only need somewhere to log in."""
    server = start_server(tmp_path_factory.mktemp("sshd"))
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def server(shared_server: SshServer) -> SshServer:
    """The shared server, known to its operator."""
    shared_server.know()
    return shared_server
