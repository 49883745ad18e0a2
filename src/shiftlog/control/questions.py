"""The questions that our own programs ask an app over the control socket: `answer` finds the function for one.

Only programs of one version talk to each other, so no contract fixes names and shapes. The functions that answer are in
the modules beside.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from importlib import import_module
from typing import Any

from shiftlog.app.app import App
from shiftlog.control.arguments import checked
from shiftlog.model.caller import Caller
from shiftlog.model.errors import Unauthorized, UnknownTool

Params = Mapping[str, Any]
# One result, or a stream of items.
Answer = Awaitable[object] | AsyncGenerator[object]
Question = Callable[[App, Params, Caller], Answer]

# Module of this package → the keys of its QUESTIONS. Some load much, so each is imported with its first question.
MODULES = {
    "journal": "status session_named sessions show search tail verify rebuild erase call_outcome tool runs usage",
    "continuity": "continuity reissue_token offer decline revoke offers lineage brief",
    "sessionlog": "sessionlog spool hook_brief hook_event",
    "imports": "import import_stop restore",
    "shells": "shells close_shell send_input exec watch replay",
    "checkpoints": "checkpoints diff undo rewind gc",
    "files": "files",
    "transfers": "put get",
    "policy": "policy_check policy_suggest approvals approve",
    "guard": "guard guard_switch",
    "clients": "clients",
    "notes": "annotate",
    "keeping": "hold holds retention retain",
}
MODULE_OF = {method: module for module, methods in MODULES.items() for method in methods.split()}
# Only an operator may ask these: a program in one of our shells must not decide for the operator or evade its rules.
OPERATORS = frozenset(
    "erase rebuild reissue_token offer revoke exec close_shell send_input put get undo rewind gc approve guard_switch "
    "annotate hold retain".split()
)


def answer(app: App, method: str, params: Params, caller: Caller) -> Answer:
    """Answer a question; raise UnknownTool for an unknown one, Unauthorized for one that only an operator may ask."""
    module = MODULE_OF.get(method)
    if module is None:
        raise UnknownTool(f"Unknown question: {method}", hint="Client and daemon are of different versions")
    if method in OPERATORS and not caller.operator:
        raise Unauthorized(f"Only an operator may ask for {method}")
    questions: dict[str, Question] = import_module(f"shiftlog.control.{module}").QUESTIONS
    return questions[method](app, checked(params), caller)
