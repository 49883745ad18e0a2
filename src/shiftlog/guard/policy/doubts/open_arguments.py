"""Doubts dynamic arguments that may complete an entry of several words, such as `git push --force`.

It matters where only the text is checked. A variable that commands of the shell set is known by its values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from shiftlog.guard.bash.words import Arg, may_become, show, text_of
from shiftlog.guard.policy.found import Doubt, Start
from shiftlog.guard.policy.lists import ListEntry, Lists, base_name
from shiftlog.guard.policy.tables import GLOBAL_VALUES, INSIDE, SUBCOMMANDS


def open_arguments(starts: Iterable[Start], lists: Lists, cwd: str, prints_name: Callable[[Arg], bool]) -> list[Doubt]:
    """Return a doubt for each start whose dynamic arguments may complete an entry; those of `prints_name` do not."""
    entries = [entry for entry in (*lists.rules.deny, *lists.rules.ask) if len(entry.words) > 1]
    found: dict[int, Doubt] = {}
    for start in starts if entries else ():
        for entry in entries:
            first = _completing(start, entry, prints_name) if lists.matches(entry, start.name, cwd) else None
            if first is not None:
                what = f"the argument '{show(first)}' of '{start.name}'"
                found[first.at] = Doubt(what, show(first), first.at, "text only")
    return list(found.values())


def _completing(start: Start, entry: ListEntry, prints_name: Callable[[Arg], bool]) -> Arg | None:
    """Return the first argument that may complete an entry."""
    given = {arg.value for arg in start.args}
    missing = [word for word in entry.words[1:] if word not in given]
    if not missing or _is_another_subcommand(start, entry):
        return None
    dynamic = [arg for arg in start.args if arg.value is None and not prints_name(arg)]
    candidates = [arg for arg in dynamic if any(_may_be(arg, word, start) for word in missing)]
    if any(arg.splits for arg in candidates) or len(candidates) >= len(missing):
        return candidates[0]
    return None


def _may_be(arg: Arg, word: str, start: Start) -> bool:
    if not may_become(arg, word):
        return False
    whole = arg.word is not None and text_of(arg.word.parts)[0] == arg.text
    if start.values is None or arg.word is None or not whole or arg.glob:
        return True
    return start.values.may_become(arg.word, word)


def subcommand(start: Start) -> str | None:
    """Return the literal first word after the options of a program; None if the text does not tell it."""
    index = 0
    while index < len(start.args) and start.args[index].prefix.startswith("-"):
        option, following = start.args[index], start.args[index + 1 : index + 2]
        valued = option.value in GLOBAL_VALUES.get(base_name(start.name), ())
        hides = option.splits or (option.value is None and "=" not in option.prefix)
        if hides or (valued and any(each.splits for each in following)):
            return None
        index += 2 if valued else 1
    return start.args[index].value if index < len(start.args) else None


def _is_another_subcommand(start: Start, entry: ListEntry) -> bool:
    """Return True if the subcommand says that a program does something else than an entry names."""
    known = SUBCOMMANDS.get(base_name(start.name), frozenset())
    said = subcommand(start) if known else None
    if said in INSIDE.get(base_name(start.name), ()):  # it may start the same program in a container
        return not any(base_name(arg.value or "") == base_name(start.name) for arg in start.args)
    return said in known and entry.words[1] in known and said != entry.words[1]
