"""What holds for any input: merging is idempotent and knows no order, and narrowing a search never changes it."""

import asyncio
import json
from collections.abc import Callable, Generator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shiftlog.dialects.mcpserver.current import CallContext
from shiftlog.dialects.mcpserver.errors import payload
from shiftlog.dialects.mcpserver.history import SEPARATOR, turn_text
from shiftlog.dialects.mcpserver.objects import turns_with_items
from shiftlog.dialects.mcpserver.requests import ACTION, DIALOG, IMPORT_TURN
from shiftlog.dialects.mcpserver.search import matches, parse
from shiftlog.dialects.mcpserver.service import METHODS
from shiftlog.dialects.mcpserver.tool_requests import ALIAS_PARAMS, TOOL_PARAMS
from shiftlog.dialects.mcpserver.tools import TOOLS, call_tool
from shiftlog.model.caller import LIBRARY
from shiftlog.model.errors import ShiftlogError
from shiftlog.model.nouns import Turn
from shiftlog.store.protocol import Reader
from tests.journal.harness import Harness, open_harness

T = TypeVar("T")

PREFIX = "workflow.sessionlog."
shared = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
numbers = count()


class Here:
    """The session log of one app in this process, asked from ordinary code."""

    def __init__(self, folder: Path) -> None:
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self.harness: Harness = self._runner.run(self._stack.enter_async_context(open_harness(folder / "home")))

    def close(self) -> None:
        self._runner.run(self._stack.aclose())
        self._runner.close()

    def do(self, method: str, workspace: str = "/work", **params: Any) -> Any:
        context = CallContext(caller=LIBRARY, workspace=workspace)
        return self._runner.run(self.harness.app.sessionlog.call(PREFIX + method, params, context))

    def call(self, name: str, params: Any) -> Any:
        """Call a method, or a tool with its stricter parameters."""
        strict = name in TOOLS
        context = CallContext(caller=LIBRARY, workspace="/fuzz", strict=strict)
        log = self.harness.app.sessionlog
        return self._runner.run(call_tool(log, name, params, context) if strict else log.call(name, params, context))

    def read(self, work: Callable[[Reader], T]) -> T:
        return self._runner.run(self.harness.read(work))

    def turns(self, session: str) -> dict[str, Turn]:
        return {turn.request_id: turn for turn in self.read(lambda reader: reader.turns(session))}

    def rebuilt(self, session: str) -> bool:
        (done,) = self._runner.run(self.harness.rebuild(session))
        return done.changed


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Generator[Here]:
    here = Here(tmp_path_factory.mktemp("here"))
    yield here
    here.close()


def new_session() -> str:
    return f"Codex-20260701T080000Z-p{next(numbers)}"


# Few values, so that parts of different imports meet.
WORDS = st.lists(st.sampled_from(["a", "b", "c", "", "  "]), max_size=3)
ITEMS: st.SearchStrategy[list[Any]] = st.lists(
    st.fixed_dictionaries(
        {"role": st.just("model"), "category": st.just("reasoning"), "content": st.sampled_from(["x", "y"])},
        optional={"timestamp": st.sampled_from(["2026-07-01T10:00:00Z", "2026-07-01T12:00:00+02:00"])},
    ),
    max_size=2,
)
ACTIONS: st.SearchStrategy[list[Any]] = st.lists(
    st.fixed_dictionaries(
        {
            "description": st.sampled_from(["x", "y"]),
            "type": st.just("edit"),
            "status": st.just("completed"),
            "order": st.integers(0, 2),
        },
        optional={"filePath": st.sampled_from(["", "a.py", "./a.py"])},
    ),
    max_size=2,
)
TURNS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"requestId": st.sampled_from(["req-20260701T080000Z-1", "req-20260701T080000Z-2"])},
    optional={
        "tags": WORDS,
        "filesModified": WORDS,
        "designDecisions": WORDS,
        "processingDialog": ITEMS,
        "actions": ACTIONS,
        "commits": st.lists(st.fixed_dictionaries({"sha": st.sampled_from(["1", "2"])}), max_size=2),
    },
)
SETS = ("tags", "files_modified", "design_decisions")


def united(here: Here, session: str) -> dict[str, Any]:
    """Return what the turns of a session hold, as sets."""

    def work(reader: Reader) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for turn, entries in turns_with_items(reader, session):
            facts = [{k: v for k, v in entry.facts.items() if k != "test_clock"} for entry in entries]
            found[turn.request_id] = (
                *(frozenset(getattr(turn, name)) for name in SETS),
                frozenset(str(commit["sha"]) for commit in turn.commits),
                frozenset(turn.files),
                # Without a time of its own an item is the stored one if all else is equal, so texts are compared.
                frozenset(str(fact.get("content")) for fact in facts),
                frozenset((fact.get("order"), fact.get("description"), fact.get("file_path")) for fact in facts),
            )
        return found

    return here.read(work)


@shared
@given(st.lists(TURNS, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_imports_unite_the_same_whatever_their_order_and_again_change_nothing(
    here: Here, turns: list[dict[str, Any]], random: Any
) -> None:
    one, other = new_session(), new_session()
    shuffled = random.sample(turns, len(turns))
    for session, order in ((one, turns), (other, shuffled)):
        for turn in order:
            here.do("importRecovery", agent="Codex", sessionId=session, title="x", turns=[turn])
    assert united(here, one) == united(here, other)
    before = united(here, one)
    again = here.do("importRecovery", agent="Codex", sessionId=one, title="x", turns=turns)
    assert again["journal"]["changed"] is False
    assert united(here, one) == before
    assert here.rebuilt(one) is False


@shared
@given(
    st.lists(TURNS | TURNS.map(lambda turn: {**turn, "status": "completed"}), min_size=1, max_size=5),
    st.lists(TURNS, max_size=3),
)
def test_a_sealed_turn_never_changes_and_the_same_data_amends_it_once(
    here: Here, turns: list[dict[str, Any]], more: list[dict[str, Any]]
) -> None:
    session = new_session()
    seals: dict[str, Any] = {}
    for turn in [*turns, *more]:
        here.do("importRecovery", agent="Codex", sessionId=session, title="x", turns=[turn])
        stored = here.turns(session)
        for name, seal in seals.items():
            assert {field: getattr(stored[name], field) for field in seal} == seal
        frozen = ("seal", "response", "tags", "files_modified", "commits", "dialog_items", "actions", "finished_at")
        for name, kept in stored.items():
            if kept.is_terminal:
                seals.setdefault(name, {field: getattr(kept, field) for field in frozen})
    again = here.do("importRecovery", agent="Codex", sessionId=session, title="x", turns=[*turns, *more])
    assert again["journal"]["changed"] is False
    assert here.rebuilt(session) is False


LETTERS = st.text(st.sampled_from('abkKsſßﬁéÉ"\\ /.\n日🚀'), min_size=1, max_size=4)
QUOTED = LETTERS.filter(lambda text: '"' not in text and "\n" not in text).map(lambda text: f'"{text}"')
EXPRESSIONS = st.recursive(
    QUOTED,
    lambda inner: st.one_of(
        inner.map(lambda part: f"!({part})"),
        st.tuples(inner, inner).map(lambda parts: f"({parts[0]} && {parts[1]})"),
        st.tuples(inner, inner).map(lambda parts: f"({parts[0]} || {parts[1]})"),
    ),
    max_leaves=4,
)


@shared
@given(st.lists(LETTERS, max_size=4), st.lists(LETTERS, max_size=3), LETTERS, st.lists(EXPRESSIONS, min_size=1))
def test_a_search_finds_what_looking_at_everything_finds(
    here: Here, texts: list[str], said: list[str], long: str, expressions: list[str]
) -> None:
    session, workspace = new_session(), f"/work{next(numbers)}"
    turns: list[dict[str, Any]] = [
        {"requestId": f"req-20260701T080000Z-{n}", "response": text, "tags": [text]} for n, text in enumerate(texts)
    ]
    item = {"role": "model", "category": "reasoning"}
    if turns:
        turns[0]["processingDialog"] = [item | {"content": text} for text in [*said, long * 2000] if text.strip()]
    here.do("importRecovery", workspace, agent="Codex", sessionId=session, title="Title b", turns=turns)

    def everything(reader: Reader) -> list[str]:
        own = SEPARATOR.join(("Title b", session)).casefold()
        found = [own + SEPARATOR + turn_text(turn, entries) for turn, entries in turns_with_items(reader, session)]
        return found or [own]

    haystacks = here.read(everything)
    for text in expressions:
        expected = any(matches(parse(text), haystack) for haystack in haystacks)
        assert here.do("queryHistory", workspace, text=text)["totalCount"] == int(expected), text


@given(st.text(max_size=30) | EXPRESSIONS)
def test_any_text_is_read_as_an_expression_or_refused(text: str) -> None:
    try:
        expression = parse(text)
    except ValueError:
        return
    assert matches(expression, "") in (True, False)


NAMES = sorted(
    {name for params in TOOL_PARAMS.values() for name in params}
    | {name for params in ALIAS_PARAMS.values() for name in params}
    | set(IMPORT_TURN.fields)
    | set(DIALOG.fields)
    | set(ACTION.fields)
    | {"sessionLog", "dialogItems", "errorMessage", "reason", "idempotencyKey", "TITLE", "unknown"}
)
IDS = st.sampled_from(
    ["Codex-20260701T080000Z-fuzz", "req-20260701T080000Z-fuzz", "Codex", "tags", "completed", "model"]
)
WILD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8) | IDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=10,
)
FITTING = st.fixed_dictionaries(
    {"sessionId": st.just("Codex-20260701T080000Z-fuzz"), "agent": st.just("Codex")},
    optional={
        "requestId": st.just("req-20260701T080000Z-fuzz"),
        "title": WILD,
        "queryTitle": WILD,
        "queryText": WILD,
        "response": WILD,
        "tags": WILD,
        "actions": WILD,
        "payload": WILD,
        "turns": WILD,
        "turnJson": WILD,
        "section": IDS,
        "sectionJson": WILD,
        "itemKey": WILD,
    },
)


@shared
@given(st.sampled_from([*METHODS, *TOOLS]), WILD | FITTING)
def test_any_parameters_are_answered_or_refused_in_the_documented_shape(here: Here, method: str, params: Any) -> None:
    try:
        result = here.call(method, params)
    except ShiftlogError as error:
        body = payload(error)
        assert set(body) - {"hint"} == {"code", "message", "retryable", "details"}
        json.dumps(body)
        msgspec.json.encode(body)
    else:
        msgspec.json.encode(result)


@shared
@given(st.lists(st.floats(-3600, 3600), min_size=1, max_size=6))
def test_last_updated_never_goes_back(here: Here, steps: list[float]) -> None:
    session, workspace = new_session(), f"/work{next(numbers)}"
    here.harness.set_time(datetime(2026, 7, 1, 12, tzinfo=UTC))
    here.do("openSession", workspace, sessionId=session, title="x")
    seen: list[str] = []
    for n, step in enumerate(steps):
        here.harness.set_time(datetime(2026, 7, 1, 12, tzinfo=UTC) + timedelta(seconds=step))
        here.do("setSessionTitle", workspace, title=f"t{n}", sessionId=session)
        seen.append(here.do("currentSession", workspace, sessionId=session)["lastUpdated"])
    assert seen == sorted(seen)
