"""The launch plan: everything the launcher must do, prepared in advance, and its wire format.

The format is NUL-separated records with a one-letter tag, so that the launcher needs no parser module.
"""

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
    records = [b"P" + plan.program]
    records += [b"A" + argument for argument in plan.arguments]
    records += [b"E" + name + b"=" + value for name, value in plan.environment.items()]
    if plan.ruleset is not None:
        records.append(b"L" + b",".join(b"%d" % number for number in plan.ruleset))
    records += [b"R%x:" % access + path for access, path in plan.rules]
    if plan.filter_program:
        records.append(b"F%d:" % plan.filter_flags + plan.filter_program.hex().encode())
    records.append(b"S%d" % plan.socket)
    if plan.keep_capabilities is not None:
        records.append(b"C%x" % plan.keep_capabilities)
    return b"\0".join([*records, b"."])


def decode(data: bytes) -> LaunchPlan:
    """Read a plan; raise `ValueError` if it is incomplete or has an unknown record."""
    plan = LaunchPlan()
    records = data.split(b"\0")
    if records.pop() != b".":
        raise ValueError("the launch plan is not whole")
    for record in records:
        tag, value = record[:1], record[1:]
        if tag == b"R":
            access, _, path = value.partition(b":")
            plan.rules.append((int(access, 16), path))
        elif tag == b"A":
            plan.arguments.append(value)
        elif tag == b"E":
            name, _, content = value.partition(b"=")
            plan.environment[name] = content
        elif tag == b"P":
            plan.program = value
        elif tag == b"L":
            files, network, scoped, abi = map(int, value.split(b","))
            plan.ruleset = (files, network, scoped, abi)
        elif tag == b"F":
            flags, _, program = value.partition(b":")
            plan.filter_flags, plan.filter_program = int(flags), bytes.fromhex(program.decode())
        elif tag == b"S":
            plan.socket = int(value)
        elif tag == b"C":
            plan.keep_capabilities = int(value, 16)
        else:
            raise ValueError(f"the launch plan holds an unknown record {tag!r}")
    return plan
