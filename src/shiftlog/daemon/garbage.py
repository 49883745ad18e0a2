"""Python's collector of reference cycles, as a server that runs for weeks needs it."""

import gc

# A full collection follows after about as many new objects as with Python's own settings, which is 85,000. Cycles whose
# objects were in use during a first collection (ended connections, shells and failed requests) wait for a later one:
# with twenty first collections of 20,000 objects before each second one, 400,000 dead objects could wait.
COLLECT_AFTER = (10_000, 1, 1)


def collect_rarely() -> None:
    """Collect new objects now and then, and what the start has made never: doing so cost a tenth of every write."""
    gc.collect()
    gc.freeze()
    # Python puts a full collection off until a quarter as many objects are new as it found at the last one; that must
    # not be all that was just frozen.
    gc.collect()
    gc.set_threshold(*COLLECT_AFTER)
    gc.enable()
