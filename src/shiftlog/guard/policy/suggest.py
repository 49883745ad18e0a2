"""Suggests an allow list: the programs that earlier commands named, most used first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from shiftlog.guard.policy.found import Definitions
from shiftlog.guard.policy.judge import Judge
from shiftlog.guard.policy.lists import ShellRules, base_name

SYSTEM_PATHS = ("/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin")


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """An allow list, the number of uses of each entry, and the commands that no list can cover."""

    allow: tuple[str, ...]
    uses: dict[str, int]
    undecided: tuple[str, ...]


def suggest_allow(commands: Iterable[str], *, least_uses: int = 1) -> Suggestion:
    """Suggest the programs that at least `least_uses` commands named; system paths are shortened to names."""
    judge = Judge(ShellRules(dangerous=False), kernel=True)
    uses: Counter[str] = Counter()
    undecided: list[str] = []
    definitions = Definitions()
    for command in commands:
        judgement = judge.judge(command, definitions)
        definitions = judgement.definitions
        if judgement.syntax_error is not None:
            continue
        if judgement.verdict == "not_checked" or judgement.open_doubts:
            undecided.append(command)
        named = {start.name for start in judgement.starts if start.kind == "program"}
        uses.update({base_name(name) if name.rsplit("/", 1)[0] in SYSTEM_PATHS else name for name in named})
    chosen = {name: count for name, count in uses.most_common() if count >= least_uses}
    return Suggestion(allow=tuple(sorted(chosen)), uses=chosen, undecided=tuple(undecided))
