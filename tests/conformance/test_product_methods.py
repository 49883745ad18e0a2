"""The methods of the protocol that the product does not offer, as the README says."""

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.daemon.support import Bridge, end_daemon

README = Path(__file__).parents[2] / "README.md"
NOT_OFFERED = {
    "completion/complete": {"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": "b"}},
    "logging/setLevel": {"level": "info"},
    "resources/subscribe": {"uri": "shiftlog://x"},
    "resources/unsubscribe": {"uri": "shiftlog://x"},
}


@pytest.fixture
def home(tmp_path: Path) -> Generator[Path]:
    path = tmp_path / "h"
    path.mkdir(mode=0o700)
    yield path
    end_daemon(path)


def test_the_product_answers_methods_that_it_does_not_offer_with_method_not_found(home: Path) -> None:
    with Bridge(home) as bridge:
        offered = bridge.shake_hands()["result"]["capabilities"]
        assert "completions" not in offered
        assert "logging" not in offered
        assert not offered["resources"].get("subscribe")
        for number, (method, params) in enumerate(NOT_OFFERED.items(), 1):
            assert bridge.request(number, method, **params)["error"]["code"] == -32601, method
    assert "It does not offer completion of arguments" in " ".join(README.read_text().split())
