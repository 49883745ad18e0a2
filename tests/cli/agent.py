"""An agent at work for tests of the command line: a real client of the bridge that calls tools."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.daemon.support import Bridge


class Agent:
    """A connected client; tools are called by name, errors come back as their bodies."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._last = 0

    def begin(self, tool: str, **arguments: Any) -> int:
        """Call a tool without waiting for the answer."""
        self._last += 1
        params = {"name": tool, "arguments": arguments}
        self._bridge.send({"jsonrpc": "2.0", "id": self._last, "method": "tools/call", "params": params})
        return self._last

    def answer(self, number: int) -> dict[str, Any]:
        """Return the answer of a call."""
        while (message := self._bridge.read()).get("id") != number:
            pass
        return json.loads(message["result"]["content"][0]["text"])

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return its answer."""
        return self.answer(self.begin(tool, **arguments))


@contextmanager
def agent(home: Path) -> Generator[Agent]:
    """Connect an agent for the time of a with block."""
    with Bridge(home) as bridge:
        bridge.shake_hands()
        yield Agent(bridge)
