"""Shiftlog: a record, a guarded shell and a hand-over for every agent session.

Nothing is imported here, so that the bridge and the hook start without the rest of the package.
"""

__version__ = "0.1.0"
