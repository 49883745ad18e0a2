"""Tool calls of a Codex thread: paired with results and events, and turned into actions."""

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any, cast

import re2

from shiftlog.facts.transcript import Action, RecordIds, ToolCall, ToolResult
from shiftlog.ingest.readers.codex.dialog import Rollout
from shiftlog.ingest.readers.codex.patch import BEGIN, FileChange, changes_in_patch, patches_in_argv, patches_in_script
from shiftlog.ingest.readers.codex.state import MAX_ANSWERED, CodexCall, CodexTurn
from shiftlog.ingest.readers.codex.text import Output
from shiftlog.ingest.readers.records import Object, bounded, call_line, is_drawn, is_masked, relative_path, text_in
from shiftlog.ingest.readers.shell_actions import Commit, commits_made, packages_added, simple_commands

SHELL_TOOLS = frozenset({"shell", "exec_command", "local_shell", "local_shell_call", "container.exec", "shell_command"})
SCRIPT_TOOLS = frozenset({"exec"})
WRITE_TOOLS = frozenset({"write", "write_file", "create_file", "edit", "edit_file"})
READ_TOOLS = frozenset({"read", "read_file", "view", "view_image"})
_PATHS = ("path", "file_path", "filePath", "filename", "file")
_SHELLS = frozenset({"bash", "sh", "zsh", "dash"})
_MAX_OPEN = 4096
_MAX_SCRIPT_CHARS = 262_144
_MAX_SCRIPT_COMMANDS = 64
# re2 is linear, and a script has any length and content.
_SCRIPT_COMMAND: Any = re2.compile(  # pyright: ignore[reportUnknownMemberType]
    r"""\b(?:cmd|command)["']?\s*:\s*(?:"((?:[^"\\]|\\.)+)"|'((?:[^'\\]|\\.)+)'|`((?:[^`\\]|\\.)+)`)"""
)
# Programs that only show files; sed counts unless it writes.
_MAX_FILES_READ = 32
_SHOWING = frozenset({"cat", "head", "tail", "nl", "sed"})
_FLAGS_WITH_VALUE = {
    "head": frozenset({"-n", "-c", "--lines", "--bytes"}),
    "tail": frozenset({"-n", "-c", "--lines", "--bytes"}),
    "nl": frozenset({"-b", "-d", "-f", "-h", "-i", "-l", "-n", "-s", "-v", "-w"}),
    "sed": frozenset({"-e", "-f", "--expression", "--file", "-l"}),
}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED_LETTERS = {"n": "\n", "t": "\t", "r": "\r"}


def open_call(
    rollout: Rollout, call_id: str | None, tool: str, given: Any, turn: CodexTurn | None, *, nested: bool = False,
    record: RecordIds | None = None, **extra: Any,
) -> str | None:  # fmt: skip
    """Write a call; return its id, or None if this file had it before."""
    state = rollout.state
    if call_id is None:
        state.unnamed_count += 1
        call_id = f"{rollout.ref.vendor_id}/{state.unnamed_count}"
        state.unnamed.append(call_id)
    else:
        call_id = call_id if nested else _own_id(rollout, call_id, turn, "call")
        if _is_known(rollout, call_id, turn, nested=nested):
            return None
    rollout.work(turn)
    call = CodexCall(
        tool=tool, turn=turn and turn.request_id, nested=nested, name=rollout.call_name(call_id, turn)
    )  # fmt: skip
    _read_input(call, tool, given)
    if call_id in state.answered:
        state.answered[call_id] = True
    else:
        if len(state.calls) >= _MAX_OPEN:
            del state.calls[next(iter(state.calls))]
        state.calls[call_id] = call
    fact = ToolCall(
        session=rollout.ref, key=("call", call.name), at=rollout.at, turn=call.turn, record=record, tool=tool,
        call_id=call_id, content=call_line(tool, given), input=bounded(given), nested=nested, extra=extra,
    )  # fmt: skip
    rollout.emit(fact, turn)
    return call_id


def _own_id(rollout: Rollout, call_id: str, turn: CodexTurn | None, kind: str) -> str:
    """Return an id of a call; of those that share a masked one the nth call has the nth result."""
    if not is_masked(call_id):
        return call_id
    number = rollout.number_of(turn, kind, call_id)
    return call_id if number == 1 else f"{call_id}#{number}"


def _is_known(rollout: Rollout, call_id: str, turn: CodexTurn | None, *, nested: bool) -> bool:
    state = rollout.state
    if (known := state.calls.get(call_id)) is not None:
        # A counting id may name another call by now, though this one was never answered.
        return is_drawn(call_id) or known.turn == (turn and turn.request_id)
    return state.answered.get(call_id, False) or (nested and call_id in state.answered)


def _read_input(call: CodexCall, tool: str, given: Any) -> None:
    if isinstance(given, str):
        if tool in SCRIPT_TOOLS:
            call.commands = _script_commands(given)
            call.patches = list(patches_in_script(given))
        elif given.lstrip().startswith(BEGIN):
            call.patches = [given]
        return
    if not isinstance(given, dict):
        return
    arguments = cast(Object, given)
    call.workdir = text_in(arguments, "workdir", "working_directory", "cwd")
    if tool in SHELL_TOOLS:
        argv = _argv(arguments.get("command", arguments.get("cmd")))
        call.patches = list(patches_in_argv(argv))
        script = _script(argv)
        call.commands = [script] if script else []
    elif tool in WRITE_TOOLS:
        call.write_path = text_in(arguments, *_PATHS)
    elif tool in READ_TOOLS:
        call.read_path = text_in(arguments, *_PATHS)
    elif tool == "apply_patch":
        call.patches = [text for name in ("input", "patch") if (text := text_in(arguments, name)) and BEGIN in text]
    elif tool == "write_stdin":
        session = arguments.get("session_id")
        call.session = str(session) if isinstance(session, int | str) else None


def _script_commands(text: str) -> list[str]:
    if "cmd" not in text and "command" not in text:
        return []
    found = cast("list[tuple[str, str, str]]", _SCRIPT_COMMAND.findall(text[:_MAX_SCRIPT_CHARS]))
    return [
        _ESCAPE.sub(lambda match: _ESCAPED_LETTERS.get(match[1], match[1]), "".join(quoted))
        for quoted in found[:_MAX_SCRIPT_COMMANDS]
    ]


def _argv(command: object) -> list[str]:
    if isinstance(command, str):
        return ["bash", "-c", command]
    if isinstance(command, list):
        return [word for word in cast(list[object], command) if isinstance(word, str)]
    return []


def _script(argv: list[str]) -> str:
    if len(argv) >= 3 and argv[0].rpartition("/")[2] in _SHELLS and argv[1].startswith("-") and argv[1].endswith("c"):
        return argv[2]
    return shlex.join(argv) if sum(map(len, argv)) < 65_536 else ""


def answer(
    rollout: Rollout, call_id: str | None, output: Output, turn: CodexTurn | None, *, tool: str | None = None
) -> bool:
    """Write the result of a call and its actions; return False if it was answered before."""
    state = rollout.state
    if call_id is None:
        call_id = state.unnamed.pop(0) if state.unnamed else f"{rollout.ref.vendor_id}/-{state.unnamed_count}"
    else:
        call_id = _own_id(rollout, call_id, turn, "result")
    if call_id in state.answered:
        return False
    call = state.calls.get(call_id)
    rollout.work(turn)
    _mark_answered(rollout, call_id, known=call is not None)
    name = call.name if call and call.name else rollout.call_name(call_id, turn)
    fact = ToolResult(
        session=rollout.ref, key=("result", name), at=rollout.at,
        turn=(call and call.turn) or (turn and turn.request_id),
        call_id=call_id, tool=call.tool if call else tool, content=output.text, images=output.images,
        is_error=output.is_error or bool(call and call.failed),
        exit_code=output.exit_code if output.exit_code is not None or call is None else call.exit_code,
        duration_ms=output.duration_ms if output.duration_ms is not None or call is None else call.duration_ms,
        interrupted=output.interrupted, denied=output.denied, orphan=call is None, nested=bool(call and call.nested),
    )  # fmt: skip
    rollout.emit(fact, turn)
    if call is not None:
        _conclude(rollout, call_id, call, output, turn)
    return True


def _mark_answered(rollout: Rollout, call_id: str, *, known: bool) -> None:
    answered = rollout.state.answered
    if len(answered) >= MAX_ANSWERED:
        for old in list(answered)[: MAX_ANSWERED // 2]:
            del answered[old]
    answered[call_id] = known
    if not is_drawn(call_id):
        rollout.state.counted.append(call_id)


def _conclude(rollout: Rollout, call_id: str, call: CodexCall, output: Output, turn: CodexTurn | None) -> None:
    state = rollout.state
    if output.denied and turn is not None:
        rollout.update_turn(turn, {}, {"blockers": [f"Denied: {call.tool}"]})
    if output.session is not None and call.tool in SHELL_TOOLS:
        # Still running: its actions follow with its exit code.
        call.session = output.session
        state.sessions[output.session] = call_id
        if len(state.sessions) > _MAX_OPEN:
            state.calls.pop(state.sessions.pop(next(iter(state.sessions))), None)
        _read_chunk(rollout, call_id, call, output.text, turn)
        return
    del state.calls[call_id]
    act(rollout, call_id, call, output, turn)
    if call.tool == "write_stdin" and call.session in state.sessions:
        started = state.sessions[call.session]
        if output.exit_code is not None:
            conclude_session(rollout, call.session, output, turn)
        elif (running := state.calls.get(started)) is not None:
            _read_chunk(rollout, started, running, output.text, turn)


def conclude_session(rollout: Rollout, session: str, output: Output, turn: CodexTurn | None) -> bool:
    """Write the actions of a command that outlived its call; return False for an unknown session."""
    started = rollout.state.sessions.pop(session, None)
    call = rollout.state.calls.pop(started, None) if started is not None else None
    if started is None or call is None:
        return False
    act(rollout, started, call, output, turn)
    return True


# -- actions -----------------------------------------------------------------------------------------------------------


def act(rollout: Rollout, call_id: str, call: CodexCall, output: Output, turn: CodexTurn | None) -> None:
    """Write the actions of a call, once its output is known."""
    code = output.exit_code if output.exit_code is not None else call.exit_code
    failed = output.is_error or call.failed or code not in (None, 0)
    if not call.patched and ("Success. Updated" in output.text[:4096] or (code == 0 and not failed)):
        for patch in call.patches:
            write_changes(rollout, call_id, changes_in_patch(patch), turn, call.workdir)
    if call.write_path is not None:
        _write_file(rollout, call_id, call, turn, failed=failed)
    if failed:
        return
    if call.read_path is not None and turn is not None:
        rollout.update_turn(turn, {}, {"context_list": [shown_path(rollout, call.read_path, call.workdir)]})
    for number, script in enumerate(call.commands):
        _read_script(rollout, f"{call_id}/{number}" if number else call_id, call, script, output.text, code, turn)


def write_changes(
    rollout: Rollout, call_id: str, changes: Sequence[FileChange], turn: CodexTurn | None, workdir: str | None = None
) -> None:
    """Write the files of a patch."""
    paths: list[str] = []
    for change in changes:
        path = shown_path(rollout, change.path, workdir)
        moved = shown_path(rollout, change.moved_from, workdir) if change.moved_from else None
        paths.append(path)
        emit_action(
            rollout, call_id, turn, path, type=change.kind, file_path=path, moved_from=moved,
            description=f"Applied patch to {path.rpartition('/')[2] or path}", diff=change.diff(path, moved),
            approximate=change.approximate,
        )  # fmt: skip
    if paths and turn is not None:
        rollout.update_turn(turn, {}, {"files_modified": list(dict.fromkeys(paths))})


def shown_path(rollout: Rollout, path: str, workdir: str | None) -> str:
    """Return a path relative to the session's first directory, even if it was relative to another."""
    cwd = rollout.state.cwd
    if workdir and cwd and not path.startswith(("/", "\\", "~")) and path[1:2] != ":":
        base = workdir.replace("\\", "/").rstrip("/")
        if base != cwd.replace("\\", "/").rstrip("/") and base.startswith("/"):
            path = f"{base}/{path.removeprefix('./')}"
    return relative_path(path, cwd)


def _write_file(rollout: Rollout, call_id: str, call: CodexCall, turn: CodexTurn | None, *, failed: bool) -> None:
    path = shown_path(rollout, call.write_path or "", call.workdir)
    name = path.rpartition("/")[2] or path
    emit_action(
        rollout, call_id, turn, path, type="create" if call.tool == "create_file" else "edit", file_path=path,
        description=f"{'Created' if call.tool == 'create_file' else 'Wrote'} {name}",
        status="failed" if failed else "completed",
    )  # fmt: skip
    if turn is not None and not failed:
        rollout.update_turn(turn, {}, {"files_modified": [path]})


def _read_chunk(rollout: Rollout, call_id: str, call: CodexCall, text: str, turn: CodexTurn | None) -> None:
    """Write the commits that a command printed, though it goes on."""
    made = [one for script in call.commands for one in commits_made(script, text) if one.sha]
    for commit in made:
        _emit_commit(rollout, call_id, turn, f"commit/{commit.sha}", commit)
        call.commits = [*call.commits, commit.sha or ""]
    if made and turn is not None:
        rollout.update_turn(turn, {}, {"commits": list(map(_named, made))})


def _emit_commit(rollout: Rollout, call_id: str, turn: CodexTurn | None, what: str, commit: Commit) -> None:
    extra = {"sha": commit.sha, "branch": commit.branch} if commit.sha else {}
    emit_action(rollout, call_id, turn, what, type="commit", description=f"git: {commit.message}", extra=extra)


def _named(commit: Commit) -> dict[str, Any]:
    return {"sha": commit.sha, "branch": commit.branch, "message": commit.message}


def _read_script(
    rollout: Rollout, call_id: str, call: CodexCall, script: str, text: str, code: int | None,
    turn: CodexTurn | None,
) -> None:  # fmt: skip
    workdir = call.workdir
    made = [one for one in commits_made(script, text) if one.sha is not None or (code == 0 and not call.commits)]
    for number, commit in enumerate(made):
        _emit_commit(rollout, call_id, turn, f"commit/{number}", commit)
    named = [_named(one) for one in made if one.sha]
    for manager, name in packages_added(script):
        emit_action(rollout, call_id, turn, f"package/{manager}/{name}", type="dependency_add",
                     description=f"{manager}: {name}")  # fmt: skip
    read = [shown_path(rollout, path, workdir) for path in files_read(script)]
    adds: dict[str, list[Any]] = {"commits": named, "context_list": read}
    if turn is not None and (named or read):
        rollout.update_turn(turn, {}, {name: items for name, items in adds.items() if items})


def emit_action(rollout: Rollout, call_id: str, turn: CodexTurn | None, what: str, **fields: Any) -> None:
    """Write an action of a call."""
    key = ("action", rollout.call_name(call_id, turn), what)
    fact = Action(
        session=rollout.ref, key=key, at=rollout.at, turn=turn and turn.request_id, call_id=call_id, **fields,
    )  # fmt: skip
    rollout.emit(fact, turn)


# -- files that a command shows ----------------------------------------------------------------------------------------


def files_read(script: str) -> list[str]:
    """Return the files that a script shows by name, each once."""
    if not any(name in script for name in _SHOWING):
        return []
    found: dict[str, None] = {}
    for words in simple_commands(script):
        name = words[0].text.rpartition("/")[2]
        writes = name == "sed" and any(word.text.startswith(("-i", "--in-place")) for word in words[1:])
        if name in _SHOWING and not writes:
            for path in _file_arguments(name, [word.text if word.literal else "$" for word in words[1:]]):
                found[path] = None
                if len(found) >= _MAX_FILES_READ:
                    return list(found)
    return list(found)


def _file_arguments(name: str, words: list[str]) -> Iterator[str]:
    valued = _FLAGS_WITH_VALUE.get(name, frozenset[str]())
    scripted = name != "sed"
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word in valued:
            at += 1
            scripted = scripted or word in ("-e", "-f", "--expression", "--file")
        elif word.startswith("-") and len(word) > 1:
            continue
        elif not scripted:
            scripted = True  # the first plain word of sed is its script
        elif word not in ("", "-", "$") and "\n" not in word and len(word) < 1024:
            yield word
