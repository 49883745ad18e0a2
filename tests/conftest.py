"""What every test shares: how far hypothesis searches, and which event loop async tests run on.

Fixtures of one room live in the conftest of that room's folder.
"""

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

# Shared machines stall now and then, so a slow example is no failure; the per-test timeout still holds.
settings.register_profile(
    "suite", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
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
