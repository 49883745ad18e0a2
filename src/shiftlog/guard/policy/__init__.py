"""The command policy: which programs a command would start, and whether they may.

`shell_rules` lays a shell's lists over the operator's policy, a `Judge` gives verdicts on text and on program starts.
Nothing here runs anything; only `LocalFiles` looks at a disk.
"""

from shiftlog.guard.bash.syntax import SyntaxFault
from shiftlog.guard.policy.explain import Explanation, Token, explain
from shiftlog.guard.policy.files import FileIdentity, LocalFiles, NoFiles
from shiftlog.guard.policy.found import Doubt, Known, Start
from shiftlog.guard.policy.judge import Ask, Judge, Judgement, Verdict, Violation
from shiftlog.guard.policy.lists import Entry, ShellRules
from shiftlog.guard.policy.operator import OperatorPolicy, combine, read_policy, shell_rules
from shiftlog.guard.policy.starts import StartVerdict
from shiftlog.guard.policy.suggest import Suggestion, suggest_allow

__all__ = [
    "Ask",
    "Doubt",
    "Entry",
    "Explanation",
    "FileIdentity",
    "Judge",
    "Judgement",
    "Known",
    "LocalFiles",
    "NoFiles",
    "OperatorPolicy",
    "ShellRules",
    "Start",
    "StartVerdict",
    "Suggestion",
    "SyntaxFault",
    "Token",
    "Verdict",
    "Violation",
    "combine",
    "explain",
    "read_policy",
    "shell_rules",
    "suggest_allow",
]
