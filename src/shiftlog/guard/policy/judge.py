"""The judge: verdicts on the text of a command, and on a program start reported by the kernel.

A judge holds one shell's rules and a way to identify files. It keeps nothing between calls: the shell stores the
`Definitions` of each `Judgement` and passes them to the next call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Literal

from shiftlog.guard.bash.script import SyntaxFault, describe_fault, line_and_column, read_script
from shiftlog.guard.bash.tree import Effort, Fault, TooMuch, Unclosed
from shiftlog.guard.policy.dangerous import DOWNLOAD_RULE, dangerous_rule
from shiftlog.guard.policy.doubts.copies import copies
from shiftlog.guard.policy.doubts.open_arguments import open_arguments
from shiftlog.guard.policy.files import FileIdentity, NoFiles
from shiftlog.guard.policy.found import Definitions, Doubt, Position, Start
from shiftlog.guard.policy.lists import (
    DeniedNames,
    ListEntry,
    ListName,
    Lists,
    ShellRules,
    Source,
    denied_names,
)
from shiftlog.guard.policy.programs import Survey
from shiftlog.guard.policy.readonly import proves_read_only
from shiftlog.guard.policy.starts import StartJudge, StartVerdict
from shiftlog.guard.secrets.redactor import names_secret
from shiftlog.model.errors import ShiftlogError
from shiftlog.model.shell_errors import PolicyDenied, PolicyUndecidable

Verdict = Literal["allowed", "denied", "asked", "deferred", "undecidable", "not_checked"]

SOURCE_RANK: dict[str, int] = {"operator": 0, "builtin": 1, "shell": 2}
MAX_VIOLATIONS = 50  # each costs a line and column, and only the first is raised
LIST_RANK: dict[str, int] = {"deny_patterns": 0, "deny": 1, "allow": 2, "dangerous": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One reason to refuse; `list` is None if the text leaves something undecided."""

    message: str
    at: int
    line: int
    column: int
    source: Source | None = None
    list: ListName | None = None
    entry: str | None = None
    program: str | None = None
    via: tuple[str, ...] = ()
    what: str | None = None
    text: str | None = None
    hint: str | None = None

    def as_error(self) -> ShiftlogError:
        """Return the error for the caller."""
        if self.list is None:
            details = {"what": self.what, "text": self.text, "line": self.line, "column": self.column}
            return PolicyUndecidable(self.message, details=details)
        details = {
            "source": self.source,
            "list": self.list,
            "entry": self.entry,
            "program": self.program,
            "via": list(self.via),
            "line": self.line,
            "column": self.column,
        }
        return PolicyDenied(self.message, details=details, hint=self.hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A program that a person must approve first."""

    entry: ListEntry
    program: str
    via: tuple[str, ...]
    at: int
    line: int
    column: int

    @property
    def message(self) -> str:
        """The message that the contract fixes."""
        return f"needs approval: '{shown_program(self.entry, self.program)}'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The verdict on one command before it runs.

    `doubts` matter under these rules, `open_doubts` would matter under any list. `definitions` hold after the command
    ran to its end, `definitions_if_stopped` no matter where it stopped.
    """

    verdict: Verdict
    violations: tuple[Violation, ...] = ()
    asks: tuple[Ask, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    open_doubts: tuple[Doubt, ...] = ()
    starts: tuple[Start, ...] = ()
    syntax_error: SyntaxFault | None = None
    read_only: bool = False
    definitions: Definitions = field(default_factory=Definitions)
    definitions_if_stopped: Definitions = field(default_factory=Definitions)
    learned: frozenset[str] = frozenset()

    @property
    def programs(self) -> tuple[str, ...]:
        """The programs found, in text order."""
        return tuple(start.name for start in sorted(self.starts, key=lambda start: start.at))


def shown_program(entry: ListEntry, program: str) -> str:
    """Return the name that messages use for a program that matched an entry."""
    return entry.text if len(entry.words) > 1 else program


class Judge:
    """Judges under one shell's rules. With `kernel`, every program start will be judged again."""

    def __init__(self, rules: ShellRules, *, kernel: bool, files: FileIdentity | None = None) -> None:
        self.rules = rules
        self.kernel = kernel
        self.files: FileIdentity = files or NoFiles()
        self._lists = Lists(rules, self.files)
        self._starts = StartJudge(self._lists)
        self._names = None if kernel else denied_names(rules.deny)

    def judge(self, text: str, definitions: Definitions | None = None, *, cwd: str = "/") -> Judgement:
        """Judge a command, given the definitions of earlier commands and the working directory."""
        definitions = definitions or Definitions()
        effort = Effort()
        script, fault = read_script(text, effort=effort)
        if isinstance(fault, Unclosed):
            return Judgement(
                verdict="not_checked",
                syntax_error=describe_fault(text, fault),
                definitions=definitions,
                definitions_if_stopped=definitions,
            )
        survey = Survey(definitions, effort=effort, names=self._names)
        try:
            survey.walk(script, Position())
            survey.finish()
        except Fault as caught:
            fault = caught
        except RecursionError:
            fault = TooMuch(0, "nesting this deep")
        return self._conclude(text, survey, fault, definitions, cwd)

    @property
    def denied_names(self) -> DeniedNames | None:
        """Return the finder of denied programs in code, for targets where only text is checked."""
        return self._names

    def copied(self, path: str) -> str | None:
        """Return the denied program of which a file of this machine is a copy."""
        entry = self._lists.copy_of(path)
        return None if entry is None else entry.program

    def judge_start(self, path: str, argv: Sequence[str], *, cwd: str = "/") -> StartVerdict:
        """Judge one program start as the kernel reports it: a path and literal arguments."""
        return self._starts.judge(path, argv, cwd)

    def _conclude(
        self, text: str, survey: Survey, fault: Fault | None, definitions: Definitions, cwd: str
    ) -> Judgement:
        rules = self.rules
        violations = self._pattern_violations(text)
        asks: list[Ask] = []
        for start in sorted(survey.starts, key=attrgetter("at")):
            if len(violations) >= MAX_VIOLATIONS:
                break
            self._judge_found(text, start, survey, cwd, violations, asks)
        if rules.dangerous:
            for danger in survey.dangers[:MAX_VIOLATIONS]:
                start = Start(danger.program, [], danger.at, danger.via, "program")
                violations.append(self._dangerous(text, start, DOWNLOAD_RULE))
        open_questions = self._relevant_doubts(survey, cwd)
        if fault is not None:
            self._add_fault(fault, open_questions)
        deferred: list[Doubt] = []
        for doubt in sorted(open_questions, key=attrgetter("at"))[:MAX_VIOLATIONS]:
            if self.kernel and doubt.when not in ("always", "refuse"):
                deferred.append(doubt)
            else:
                violations.append(_undecidable(text, doubt))
        violations.sort(key=lambda one: (one.at, SOURCE_RANK[one.source or "shell"], LIST_RANK.get(one.list or "", 9)))
        return Judgement(
            verdict=_verdict(violations, asks, deferred, unread=fault is not None),
            violations=tuple(violations),
            asks=tuple(asks),
            doubts=tuple(open_questions),
            open_doubts=tuple(doubt for doubt in survey.doubts if doubt.when == "lists"),
            starts=tuple(survey.starts),
            read_only=fault is None and proves_read_only(survey),
            definitions=_remember(
                definitions, survey, {name for name in survey.defined if survey.functions.get(name)}, to_its_end=True
            ),
            definitions_if_stopped=_remember(definitions, survey, survey.first, to_its_end=False),
            learned=frozenset(value for name, value in survey.assigned if value and _is_learned(name, value)),
        )

    def _pattern_violations(self, text: str) -> list[Violation]:
        found: list[Violation] = []
        data = text.encode("utf-8", "surrogatepass") if self.rules.patterns else b""
        for rule in self.rules.patterns:
            match = rule.pattern.search(data)
            if match is None:
                continue
            at = len(data[: match.start()].decode("utf-8", "surrogatepass"))
            line, column = line_and_column(text, at)
            message = f"blocked by operator policy: matches deny pattern {rule.number}"
            found.append(
                Violation(message=message, at=at, line=line, column=column, source="operator", list="deny_patterns",
                          entry=str(rule.number))
            )  # fmt: skip
        return found

    def _judge_found(
        self, text: str, start: Start, survey: Survey, cwd: str, violations: list[Violation], asks: list[Ask]
    ) -> None:
        rules, lists = self.rules, self._lists
        if rules.dangerous and start.kind != "script" and start.surety == "sure":
            rule = dangerous_rule(start.name, start.args, rules.home)
            if rule is not None:
                violations.append(self._dangerous(text, start, rule))
        if not rules.has_lists:
            return
        literals = [arg.value for arg in start.args if arg.value is not None]
        entry = lists.denied(start.name, literals, cwd) if rules.deny else None
        if entry is not None:
            if start.surety == "stored":
                if not self.kernel:
                    doubt = Doubt(f"stored code that starts '{start.name}'", start.name, start.at, "text only")
                    violations.append(_undecidable(text, doubt))
                return
            what = f"'{shown_program(entry, start.name)}' is denylisted"
            violations.append(self._violation(text, start, what, entry.source, "deny", entry.text))
            return
        if start.surety == "sure":
            self._judge_permission(text, start, survey, cwd, violations)
            asked = lists.asked(start.name, literals, cwd) if rules.ask else None
            if asked is not None:
                line, column = line_and_column(text, start.at)
                asks.append(Ask(entry=asked, program=start.name, via=start.via, at=start.at, line=line, column=column))
        elif start.surety == "setting" and start.kind == "program" and not self.kernel:
            missing = lists.not_permitted(start.name, cwd)
            if missing is not None:
                doubt = Doubt(f"a setting that starts '{start.name}'", start.name, start.at, "text only")
                violations.append(_undecidable(text, doubt))

    def _judge_permission(self, text: str, start: Start, survey: Survey, cwd: str, violations: list[Violation]) -> None:
        if not self.rules.allow or start.kind in ("builtin", "script"):
            return
        if start.kind == "function" and (self.kernel or start.defined):
            return
        if start.later and start.name in (survey.defined if self.kernel else survey.first - survey.perhaps_removed):
            return
        missing = self._lists.not_permitted(start.name, cwd)
        if missing is not None:
            what = f"'{start.name}' not in allowlist"
            violation = self._violation(text, start, what, missing.source, "allow", None)
            violations.append(replace(violation, hint=self._lists.allow_hint(start.name)))

    @staticmethod
    def _violation(text: str, start: Start, what: str, source: Source, name: ListName, entry: str | None) -> Violation:
        line, column = line_and_column(text, start.at)
        whose = "policy" if source == "shell" else "operator policy"
        return Violation(message=f"blocked by {whose}: {what}", at=start.at, line=line, column=column, source=source,
                         list=name, entry=entry, program=start.name, via=start.via)  # fmt: skip

    def _dangerous(self, text: str, start: Start, rule: str) -> Violation:
        return self._violation(text, start, f"dangerous pattern blocked: {rule}", "builtin", "dangerous", rule)

    def _relevant_doubts(self, survey: Survey, cwd: str) -> list[Doubt]:
        rules = self.rules
        relevant = [
            doubt
            for doubt in survey.doubts
            if doubt.when == "always"
            or (doubt.when == "lists" and rules.has_lists)
            or (doubt.when == "allow" and rules.allow)
            or (doubt.when == "text only" and rules.has_lists and not self.kernel)
        ]
        if (rules.deny or rules.ask) and not self.kernel:
            writes = survey.writes_something or bool(survey.writes)
            relevant.extend(copies(survey.starts, survey.reads, self._lists, cwd, writes=writes))
            relevant.extend(open_arguments(survey.starts, self._lists, cwd, survey.prints_branch))
        return relevant

    def _add_fault(self, fault: Fault, questions: list[Doubt]) -> None:
        too_much = isinstance(fault, TooMuch)
        if self.rules.has_lists or (too_much and self.rules.dangerous):
            # The kernel checks lists only, so with the dangerous rules on an unread text cannot be left to it.
            when = "refuse" if too_much and self.rules.dangerous else "lists"
            questions.append(Doubt(fault.what, "", fault.at, when))


def _undecidable(text: str, doubt: Doubt) -> Violation:
    line, column = line_and_column(text, doubt.at)
    message = f"blocked by policy: {doubt.what} cannot be decided before it runs"
    return Violation(message=message, at=doubt.at, line=line, column=column, what=doubt.what, text=doubt.text)


def _verdict(violations: list[Violation], asks: list[Ask], deferred: list[Doubt], *, unread: bool) -> Verdict:
    if violations:
        return "undecidable" if violations[0].list is None else "denied"
    if asks:
        return "asked"
    if deferred:
        return "deferred"
    return "not_checked" if unread else "allowed"


def _remember(definitions: Definitions, survey: Survey, certain: set[str], *, to_its_end: bool) -> Definitions:
    removed = survey.removed | survey.perhaps_removed
    same = not survey.defined and not removed and survey.aliases == definitions.aliases
    if same and (survey.names is None or (not survey.assigned and survey.values.known == definitions.values)):
        return definitions
    return Definitions(
        functions=frozenset((definitions.functions | certain) - removed),
        aliases=dict(survey.aliases),
        passing=frozenset(survey.passing),
        shifts=frozenset(survey.shifts),
        values=survey.values.known if survey.names is not None else {},
        settled=frozenset(survey.values.settled) if to_its_end else definitions.settled,
    )


def _is_learned(name: str, value: str) -> bool:
    """Return True for a secret; a variable that looks like a password may be the shell's working directory."""
    directory = name.upper() in ("PWD", "OLDPWD") and value.startswith(("/", "~", "."))
    return names_secret(name) and not directory
