"""The engine of stepback as its watcher calls it after a burst of edits; its command line has no single checkpoint."""

import json
import sys
import time
from pathlib import Path

from stepback import Engine

engine = Engine(Path(sys.argv[1]))
engine.start_session()
for _line in sys.stdin:
    begun = time.perf_counter()
    try:
        saved = engine.checkpoint()
        answer = {"seconds": time.perf_counter() - begun, "saved": saved is not None}
    except Exception as error:  # noqa: BLE001 - the edge: whatever a peer raises is its answer
        answer = {"failed": f"{type(error).__name__}: {error}"[:300]}
    print(json.dumps(answer), flush=True)
