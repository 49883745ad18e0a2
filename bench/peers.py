"""`python -m bench.peers`: other tools beside ours. None is measured yet.

The journal has no peer that does the same work; the first ones are shells and checkpoints, not in this version.
"""

import sys


def main() -> int:
    """Say what there is to compare."""
    print("bench-peers: no peer is measured in this version; `make bench` compares with floors instead")
    return 0


if __name__ == "__main__":
    sys.exit(main())
