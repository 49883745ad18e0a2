"""The launch plan: everything the launcher must do, prepared in advance, and its wire format.

Both ends run the same Python, so the format is `marshal`, which is built in and costs the launcher no import.
"""

import marshal
from collections.abc import Iterable, Mapping, Sequence


class LaunchPlan:
    """What the launcher applies, in this order: limits, capabilities, Landlock, seccomp, then the program."""

    __slots__ = ("arguments", "environment", "filter_flags", "filter_program", "keep_capabilities", "program",
                 "rules", "ruleset", "socket")  # fmt: skip

    def __init__(
        self,
        *,
        program: bytes = b"",
        arguments: Sequence[bytes] = (),
        environment: Mapping[bytes, bytes] | None = None,
        ruleset: tuple[int, int, int, int] | None = None,
        rules: Iterable[tuple[int, bytes]] = (),
        filter_program: bytes = b"",
        filter_flags: int = 0,
        socket: int = -1,
        keep_capabilities: int | None = None,
    ) -> None:
        self.program = program
        self.arguments = list(arguments)
        self.environment = dict(environment or {})
        self.ruleset = ruleset
        self.rules = list(rules)
        self.filter_program = filter_program
        self.filter_flags = filter_flags
        self.socket = socket
        self.keep_capabilities = keep_capabilities


def encode(plan: LaunchPlan) -> bytes:
    """Write a plan for the launcher."""
    return marshal.dumps({name: getattr(plan, name) for name in LaunchPlan.__slots__})


def decode(data: bytes) -> LaunchPlan:
    """Read a plan; raise `ValueError` if it is incomplete or not a plan."""
    try:
        return LaunchPlan(**marshal.loads(data))  # noqa: S302 — the daemon wrote it into a private memory file
    except (EOFError, TypeError, ValueError) as error:
        raise ValueError(f"the launch plan cannot be read: {error}") from None
