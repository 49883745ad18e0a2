"""The collector of a server: cycles that outlived a first collection do not pile up."""

import subprocess
import sys

# Makes cycles as ended connections leave them: each is still in use during a first collection, and dead soon after.
PILING_UP = """
from collections import deque
from shiftlog.daemon.garbage import collect_rarely

class Cycle:
    alive = 0
    def __init__(self):
        self.own, self.more = self, [[] for _ in range(20)]
        Cycle.alive += 1
    def __del__(self):
        Cycle.alive -= 1

collect_rarely()
in_use, most = deque(maxlen=500), 0
for _ in range(40_000):
    in_use.append(Cycle())
    most = max(most, Cycle.alive)
print(most)
"""


def test_dead_cycles_that_were_in_use_at_a_collection_do_not_pile_up() -> None:
    said = subprocess.run([sys.executable, "-c", PILING_UP], capture_output=True, text=True, check=True, timeout=60)
    assert int(said.stdout) < 5_000
