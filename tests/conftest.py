"""What every test shares: how far hypothesis searches, and which event loop async tests run on.

Fixtures of one room live in the conftest of that room's folder.
"""

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.postgres_server import PostgresServer, databases_for_homes, empty, reason_to_skip
from tests.warm.handing_over import VARIABLE
from tests.warm.starting import WarmDaemons

# Shared machines stall now and then, so a slow example is no failure; the per-test timeout still holds.
settings.register_profile(
    "suite", max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("soak", settings.get_profile("suite"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


def pytest_configure() -> None:
    """Let programs that tests start be interrupted, also where the suite itself was started in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--store", choices=["sqlite", "postgres"], default="sqlite", help="The store below the harness of the journal."
    )


@pytest.fixture(scope="module", autouse=True)
def store_of_harness(request: pytest.FixtureRequest) -> Iterator[None]:
    """With `--store postgres`, give each state directory of a module's tests a database of its own."""
    if request.config.getoption("--store") == "sqlite":
        yield
        return
    with databases_for_homes(request.getfixturevalue("postgres_server")):
        yield


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """Start a server that all tests of this process share; skip where there is none."""
    reason = reason_to_skip()
    if reason is not None:
        pytest.skip(reason)
    server = PostgresServer()
    try:
        yield server
    finally:
        server.remove()


@pytest.fixture
def own_database(postgres_server: PostgresServer) -> Iterator[str]:
    """A database without a schema, for tests that change tables."""
    import psycopg

    with psycopg.connect(postgres_server.url(), autocommit=True) as db:
        db.execute("CREATE DATABASE own")
        yield postgres_server.url("own")
        db.execute("DROP DATABASE own WITH (FORCE)")


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> str:
    """Return the address of an empty database with our schema."""
    empty(postgres_server.url())
    return postgres_server.url()


@pytest.fixture(scope="session", autouse=True)
def warm_daemons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let the daemons of tests be forked from a process that has imported their modules."""
    with WarmDaemons(tmp_path_factory.mktemp("warm") / "socket"):
        yield


@pytest.fixture
def cold_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start daemons as users start them, for tests of the start itself."""
    monkeypatch.delenv(VARIABLE)
