"""The wordings of argument faults: one for the journal's tools, one for the tools of shells and workspaces.

A field finds the fault; the wording of its tool phrases the error. What a field accepts is in `fields`.
"""

from collections.abc import Sequence

from shiftlog.model.errors import InvalidParameter


def fault(
    path: str, problem: str, message: str, *, expected: str | None = None, hint: str | None = None
) -> InvalidParameter:
    """Return the error that names a faulty argument of a shell tool."""
    details: dict[str, object] = {"parameter": path, "problem": problem, "expected": expected}
    return InvalidParameter(message, details=details, hint=hint)


def must_be(path: str, expected: str, problem: str = "type") -> InvalidParameter:
    """Return the error for a value of the wrong type, range or format."""
    return fault(path, problem, f'argument "{path}" must be {expected}', expected=expected)


def missing(path: str) -> InvalidParameter:
    """Return the error for a required argument that is absent."""
    return fault(path, "missing", f'missing argument "{path}"', expected="a value")


def conflict(path: str, other: str) -> InvalidParameter:
    """Return the error for arguments that exclude each other."""
    return fault(path, "conflict", f'argument "{path}" cannot be used with {other}', expected=f"no {path} with {other}")


class Wording:
    """The journal's wording: `Parameter 'x' is invalid: …`. Its tools accept numbers, flags and lists as text too."""

    coerces = True
    boolean, list_ = "a boolean", "a list"

    def wrong(self, path: str, expected: str, value: object, problem: str = "type") -> InvalidParameter:
        """Return the error for a value of the wrong type, range or format."""
        return InvalidParameter.invalid(path, f"{expected} is expected", value)

    def missing(self, path: str) -> InvalidParameter:
        """Return the error for a required argument that is absent or blank."""
        return InvalidParameter.missing(path)

    def unknown(self, path: str, near: str | None, known: Sequence[str], *, alike: bool) -> InvalidParameter:
        """Return the error for an argument that the tool does not have; it lists the known ones if none is alike."""
        return InvalidParameter.unknown(path, near, () if alike else known)

    def integer(self, path: str, value: object, least: int | None, most: int | None) -> InvalidParameter:
        """Return the error for a value that is not a whole number of this range."""
        says = "integer"
        if least is not None:
            says = f"integer of at least {least}" if most is None else f"integer {least}..{most}"
        return InvalidParameter.invalid(path, says, value)

    def choice(self, path: str, value: object, values: Sequence[str]) -> InvalidParameter:
        """Return the error for a value that is not one of the words."""
        return InvalidParameter.invalid(path, "one of " + ", ".join(values), value, allowed=list(values))

    def too_many(self, path: str, count: int, most: int) -> InvalidParameter:
        """Return the error for a list that is too long."""
        return InvalidParameter.invalid(path, f"at most {most} items", count)


class ShellWording(Wording):
    """The shell tools' wording: `argument "x" must be …`. They accept values of the declared type alone."""

    coerces = False
    boolean, list_ = "true or false", "a list of strings"

    def wrong(self, path: str, expected: str, value: object, problem: str = "type") -> InvalidParameter:
        return must_be(path, expected, problem)

    def missing(self, path: str) -> InvalidParameter:
        return missing(path)

    def unknown(self, path: str, near: str | None, known: Sequence[str], *, alike: bool) -> InvalidParameter:
        hint = f"Did you mean {near}?" if alike else f"The nearest known name is {near}" if near else None
        return fault(path, "unknown", f'unknown argument "{path}"', expected=", ".join(known), hint=hint)

    def integer(self, path: str, value: object, least: int | None, most: int | None) -> InvalidParameter:
        if isinstance(value, bool) or not isinstance(value, int):
            return must_be(path, "an integer")
        return must_be(path, f"an integer of {least} to {most}", "range")

    def choice(self, path: str, value: object, values: Sequence[str]) -> InvalidParameter:
        if not isinstance(value, str):
            return must_be(path, "a string")
        return must_be(path, "one of " + ", ".join(values), "range")

    def too_many(self, path: str, count: int, most: int) -> InvalidParameter:
        return must_be(path, f"at most {most} strings", "range")


JOURNAL = Wording()
SHELL = ShellWording()
