"""Results of Claude Code's tool calls, and the actions they show."""

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

from shiftlog.facts.transcript import Action, Disposition, Key, ToolResult, UsageFact
from shiftlog.ingest.readers import actions
from shiftlog.ingest.readers.claude import turns as claude_turns
from shiftlog.ingest.readers.claude.children import link_by_result
from shiftlog.ingest.readers.claude.context import Context
from shiftlog.ingest.readers.claude.state import ClaudeCall, ClaudeTurn, Strand
from shiftlog.ingest.readers.claude.text import image_of, text_and_images
from shiftlog.ingest.readers.records import (
    WHOLE_LINE,
    Object,
    first_line,
    list_in,
    object_in,
    objects_in,
    relative_path,
    text_in,
    tokens_in,
    whole_in,
)
from shiftlog.ingest.readers.shell_actions import commits_made, packages_added

EDITS = frozenset({"Edit", "MultiEdit", "Write", "NotebookEdit"})
SHELL = "Bash"

_DENIED = "The user doesn't want to proceed"
_EXIT_CODE = re.compile(r"Exit code (-?[0-9]{1,10})(?![0-9])")
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(\S.*)$", re.MULTILINE)
_PERSISTED = "<persisted-output>"
_SPILL_FOLDER = "tool-results/"
_DURATIONS = ("durationMs", "totalDurationMs", "duration_ms")
_KEPT_IDS = {
    "agentId": "agent_id",
    "backgroundTaskId": "background_task_id",
    "taskId": "task_id",
    "runId": "run_id",
}


def read_results(context: Context, strand: Strand, record: Object, blocks: list[Any], *, nested: bool) -> Disposition:
    """Read a `user` record with results; texts beside them are the user's."""
    turn = None if nested else claude_turns.ensure_turn(context, strand)
    parts = [(at, cast("Object", block)) for at, block in enumerate(blocks) if isinstance(block, dict)]
    alone = len(parts) == 1 or sum(block.get("type") == "tool_result" for _, block in parts) == 1
    details = object_in(record, "toolUseResult") if alone else {}
    for at, block in parts:
        kind = block.get("type")
        if kind == "tool_result":
            read_result(context, strand, record, block, at, details, nested=nested)
        elif kind == "text" and (text := text_in(block, "text")):
            context.say(strand, "user", "observation", text, block=at)
        elif (image := image_of(block, keep=context.hints.keep_images)) is not None:
            context.say(strand, "user", "observation", "", block=at, images=(image,))
    if turn is not None:
        turn.last = "result"
    return Disposition.MAPPED


def read_result(
    context: Context, strand: Strand, record: Object, block: Object, at: int, details: Object, *, nested: bool
) -> None:
    """Read one result: join it with its call, and give the call's actions."""
    text, images = text_and_images(block.get("content"), keep=context.hints.keep_images)
    call_id = text_in(block, "tool_use_id")
    if call_id is None:
        if text or images:
            context.say(strand, "tool", "observation", text, block=at, images=images)
        return
    turn = None if nested else strand.turn
    call = strand.calls.pop(call_id, None)
    tool = call.tool if call is not None else None
    name, alias = (call.name or call_id, call.alias) if call is not None else context.call_name(strand, call_id)
    denied = isinstance(record.get("toolDenialKind"), str) or text.startswith(_DENIED)
    is_error = block.get("is_error") is True or denied
    if turn is not None:
        turn.calls.discard(call_id)
        if denied:
            turn.add("blockers", f"Denied: {tool or 'unknown'}")
    result = ToolResult(
        session=strand.ref,
        turn=turn and turn.request_id,
        key=("result", name),
        aliases=(("result", alias),) if alias else (),
        at=context.at,
        record=context.ids(at),
        call_id=call_id,
        tool=tool,
        content=text,
        is_error=is_error,
        exit_code=_exit_code(text, details, tool, is_error=is_error),
        duration_ms=next((ms for name in _DURATIONS if (ms := whole_in(details, name)) is not None), None),
        interrupted=details.get("interrupted") is True,
        orphan=call is None,
        denied=denied,
        nested=nested,
        images=images,
        spilled=_spilled(text, details),
        extra={ours: value for theirs, ours in _KEPT_IDS.items() if (value := text_in(details, theirs))},
    )
    context.emit(strand, result)
    if call is not None:
        value = cast("Object", call.input) if isinstance(call.input, dict) else {}
        link_by_result(context, strand, tool, value, details, call_id)
        if turn is not None:
            _CallActions(context, strand, turn, call_id, call).give(value, details, text, is_error=is_error)


def _exit_code(text: str, details: Object, tool: str | None, *, is_error: bool) -> int | None:
    if text.startswith("Exit code ") and (found := _EXIT_CODE.match(text)) is not None:
        return int(found[1])
    if "exitCode" in details and (code := whole_in(details, "exitCode")) is not None:
        return code
    return 0 if tool == SHELL and not is_error else None


def _spilled(text: str, details: Object) -> str | None:
    if (path := text_in(details, "persistedOutputPath")) is not None:
        return path
    if not (len(text) < 400 or text.startswith(_PERSISTED)) or _SPILL_FOLDER not in text[:4096]:
        return None
    words = (word.strip("\"'`,;()<>") for word in text[:4096].split())
    return next((word.rstrip(".") for word in words if _SPILL_FOLDER in word), None)


@dataclass(slots=True)
class _CallActions:
    """Gives the actions of one answered call."""

    context: Context
    strand: Strand
    turn: ClaudeTurn
    call_id: str
    call: ClaudeCall
    count: int = 0

    def give(self, value: Object, details: Object, text: str, *, is_error: bool) -> None:
        tool = self.call.tool
        if tool in EDITS:
            self._edit(tool, value, details, is_error=is_error)
        elif is_error:
            return
        elif tool == SHELL:
            self._shell(text_in(value, "command") or "", text)
        elif tool == "Read":
            path = text_in(object_in(details, "file"), "filePath") or text_in(value, "file_path")
            if path is not None:
                self.turn.add("context_list", relative_path(path, self.strand.first_cwd))
        elif tool in ("WebFetch", "WebSearch", "web_search", "web_fetch"):
            self._web(value, details)
        elif tool == "ExitPlanMode":
            self._plan(value, details)
        elif tool == "AskUserQuestion":
            self._answers(details, text)

    def _act(self, kind: str, description: str, **more: Any) -> None:
        key: Key = ("call", f"{self.call.name or self.call_id}/a{self.count}")
        aliases: tuple[Key, ...] = (("call", f"{self.call.alias}/a{self.count}"),) if self.call.alias else ()
        self.count += 1
        action = Action(
            session=self.strand.ref,
            turn=self.turn.request_id,
            key=key,
            aliases=aliases,
            at=self.context.at,
            record=self.context.ids(),
            type=kind,
            description=description,
            call_id=self.call_id,
            **more,
        )
        self.context.emit(self.strand, action)

    def _edit(self, tool: str, value: Object, details: Object, *, is_error: bool) -> None:
        path = text_in(details, "filePath") or text_in(value, "file_path", "notebook_path")
        if path is None:
            return
        path = relative_path(path, self.strand.first_cwd)
        if is_error:
            self._act("edit", f"Failed to edit {path}", status="failed", file_path=path)
            return
        created = details.get("type") == "create"
        diff, approximate = _diff(tool, path, value, details, created=created)
        self._act(
            "create" if created else "edit",
            f"{'Created' if created else 'Edited'} {path}",
            file_path=path,
            diff=diff,
            approximate=approximate,
            user_modified=details.get("userModified") is True,
        )
        self.turn.add("files_modified", path)

    def _shell(self, command: str, output: str) -> None:
        for commit in commits_made(command, output):
            made = {"sha": commit.sha, "branch": commit.branch, "message": commit.message}
            self._act("commit", f"git: {commit.message}", extra=made)
            if commit.sha is not None:
                self.turn.add("commits", made)
        for manager, package in packages_added(command):
            self._act("dependency_add", f"{manager}: {package}")

    def _web(self, value: Object, details: Object) -> None:
        query = text_in(value, "query") or text_in(details, "query")
        address = text_in(value, "url") or text_in(details, "url") or (query and f"search: {query}")
        if address is not None:
            self._act("web_reference", address)
        searches = tokens_in(details, "searchCount")
        if searches and self.call.use is not None:
            message_id, _, request_id = self.call.use.rpartition("/")
            used = UsageFact(
                session=self.strand.ref,
                turn=self.turn.request_id,
                key=("use", self.call.use),
                at=self.context.at,
                web_searches=searches,
                message_id=message_id,
                joins=not request_id,
            )
            self.context.emit(self.strand, used)

    def _plan(self, value: Object, details: Object) -> None:
        plan = text_in(details, "plan") or text_in(value, "plan") or ""
        heading = _HEADING.search(plan[:WHOLE_LINE])
        title = heading[1].strip() if heading else first_line(plan, WHOLE_LINE)
        title = title.strip("#").strip() or "Plan accepted"
        self._act("design_decision", title)
        self.turn.add("design_decisions", title)
        if (path := text_in(details, "filePath")) is not None:
            self.turn.sets["plan_file"] = relative_path(path, self.strand.first_cwd)

    def _answers(self, details: Object, text: str) -> None:
        answers = object_in(details, "answers")
        pairs = [(question, _answer(given)) for question, given in answers.items()] or _quoted_pairs(text)
        for question, given in pairs:
            if given:
                decision = f"{question} → {given}"
                self._act("design_decision", decision)
                self.turn.add("design_decisions", decision)


def _answer(given: object) -> str:
    if isinstance(given, list):
        return ", ".join(str(part) for part in cast("list[object]", given))
    return given if isinstance(given, str) else ""


def _quoted_pairs(text: str) -> list[tuple[str, str]]:
    # `User has answered your questions: "Which?"="This one", "Where?"="There". …`
    pairs: list[tuple[str, str]] = []
    for before, after in pairwise(text[:65536].split('"="')):
        question = before.rpartition('"')[2]
        answer = after.partition('"')[0]
        if question and answer:
            pairs.append((question, answer))
    return pairs


def _diff(tool: str, path: str, value: Object, details: Object, *, created: bool) -> tuple[str | None, bool]:
    content = text_in(details, "content") or text_in(value, "content")
    if created and content is not None:
        return actions.diff_of_created(path, content), False
    patch = list_in(details, "structuredPatch")
    if patch and (diff := actions.diff_from_patch(path, patch)) is not None:
        return diff, False
    if tool == "Write":
        replaced = [("", content or "")]
    elif tool == "NotebookEdit":
        replaced = [(text_in(details, "old_source") or "", text_in(value, "new_source") or "")]
    else:
        edits = objects_in(value, "edits") or objects_in(details, "edits") or [value or details]
        replaced = [
            (text_in(edit, "old_string", "oldString") or "", text_in(edit, "new_string", "newString") or "")
            for edit in edits
        ]
    diff = actions.diff_of_replacements(path, replaced)
    return diff, diff is not None
