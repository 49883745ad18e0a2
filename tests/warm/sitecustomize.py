"""Let a daemon that a test's program starts be forked from the warm server.

Python imports this module first in every program of a test: `tests/conftest.py` puts this folder on PYTHONPATH. All
programs go on at once but those that a client starts as its daemon.
"""

import os
import sys

if "shiftlog.daemon" in sys.orig_argv and "WARM_DAEMONS" in os.environ:
    from importlib import import_module

    import_module("handing_over").hand_over(os.environ["WARM_DAEMONS"])
