"""A secret in any text of any tool: in no answer, no log and no byte of the state directory."""

import random
import string
from collections.abc import Iterator
from pathlib import Path

import apsw
import zstandard

from tests.daemon.support import control, eventually, lock_holder
from tests.story.agents import Agent, shiftlog
from tests.story.schemas import Position, Schema, accepted_schemas, around, positions, valid_arguments

ZSTD = b"\x28\xb5\x2f\xfd"
AMPLE = 5_000


class Secrets:
    """Makes secrets up and remembers where each was put."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self.planted: dict[str, str] = {}

    def draw(self, alphabet: str, length: int) -> str:
        """Return made-up characters."""
        return "".join(self._chance.choices(alphabet, k=length))

    def plant(self, where: str, prefix: str = "ghp_", alphabet: str = string.ascii_letters, length: int = 36) -> str:
        """Return a new token for a place; what is looked for later is its random part."""
        core = self.draw(alphabet, length)
        self.planted[core] = where
        return prefix + core

    def in_bytes(self, data: bytes) -> list[str]:
        """Return the places whose secrets are in the data, in whatever case."""
        folded = data.lower()
        return [where for core, where in self.planted.items() if core.lower().encode() in folded]


def texts(secrets: Secrets, tool: str, position: Position) -> Iterator[str]:
    """Yield texts with a secret that fit there: alone, in a sentence, and in a text so long that it is kept apart."""
    where = f"{tool} {position.path}"
    limit = position.schema.get("maxLength", AMPLE * 4)
    yield secrets.plant(where)[:limit]
    if limit >= 100:
        yield f"the token is {secrets.plant(where)} for now"
    if limit >= AMPLE * 2:
        yield f"{'word ' * (AMPLE // 5)}{secrets.plant(where)}{' word' * (AMPLE // 5)}"


def names(secrets: Secrets, tool: str, name: str) -> Iterator[str]:
    """Yield what has the form of a name and holds a secret."""
    where = f"{tool} {name}"
    lower = string.ascii_lowercase + string.digits
    if name == "agent":
        yield secrets.plant(where, "AKIA", string.ascii_uppercase, 16)
    if name in ("session_id", "parent_session_id"):
        yield "Test-20260101T000000Z-" + secrets.plant(where, "glpat-", lower, 20)
    if name == "request_id":
        yield "req-20260101T000000Z-" + secrets.plant(where, "glpat-", lower, 20)


def every_cell(database: Path) -> Iterator[bytes]:
    """Yield every value in every table, long texts unpacked, and every word of every full-text index."""
    db = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        schema = "SELECT name, sql FROM sqlite_schema WHERE sql <> ''"
        tables = [(str(name), str(sql)) for name, sql in db.execute(schema)]
        for name, sql in tables:
            if "USING fts5" in sql:
                db.execute(f"CREATE VIRTUAL TABLE temp.words_of_{name} USING fts5vocab(main, {name}, row)")
                for (word,) in db.execute(f"SELECT term FROM temp.words_of_{name}"):
                    yield str(word).encode()
            elif sql.startswith("CREATE TABLE"):
                for row in db.execute(f'SELECT * FROM "{name}"'):
                    for cell in row:
                        yield from _unpacked(cell)
    finally:
        db.close()


def _unpacked(cell: object) -> Iterator[bytes]:
    data = cell if isinstance(cell, bytes) else str(cell).encode()
    yield data
    if data.startswith(ZSTD):
        yield zstandard.ZstdDecompressor().decompress(data)


def everything_at_rest(home: Path) -> Iterator[tuple[str, bytes]]:
    """Yield every file of a state directory, then what its database holds."""
    for path in home.rglob("*"):
        if path.is_file():
            yield path.name, path.read_bytes()
    for cell in every_cell(home / "shiftlog.db"):
        yield "a cell", cell


class Session:
    """An open session to plant secrets in, and a check of everything that comes back."""

    def __init__(self, agent: Agent, secrets: Secrets) -> None:
        self._agent = agent
        self._secrets = secrets
        self.leaks: list[tuple[str, list[str]]] = []
        self.id = ""

    def begin(self) -> None:
        """Open a session with a turn, unless one is open."""
        self.id = self._agent.call("open_session", agent="Test", title="fine")["session_id"]
        self._agent.call("begin_turn", session_id=self.id, query_title="fine", query_text="fine")

    def send(self, method: str, **params: object) -> None:
        """Send a request and look for secrets in the bytes of the answer, whether it failed or not."""
        self._agent.send(method, **params)
        line = self._agent.bridge.read_line() or b""
        found = self._secrets.in_bytes(line)
        if found:
            self.leaks.append((f"{method} {params.get('name', '')}", found))


def plant_everywhere(session: Session, secrets: Secrets, tool: str, schema: Schema) -> None:
    """Call a tool once for each text that fits each position, and with a secret for an argument's name."""
    ends = tool in ("close_session", "finish_turn")
    session.begin()
    for position in positions(schema):
        if not position.is_text:
            continue
        for value in [*texts(secrets, tool, position), *names(secrets, tool, position.path)]:
            if ends:
                session.begin()
            arguments = around(position, schema, valid_arguments(tool, session.id))
            session.send("tools/call", name=tool, arguments=position.holding(arguments, value))
    unknown = {**valid_arguments(tool, session.id), secrets.plant(f"{tool} unknown"): "x"}
    session.send("tools/call", name=tool, arguments=unknown)
    wrong = {**valid_arguments(tool, session.id), "session_id": {secrets.plant(f"{tool} wrong type"): 1}}
    session.send("tools/call", name=tool, arguments=wrong)


def read_everything_back(agent: Agent, session: Session) -> None:
    """Ask in every way for what was recorded."""
    whole = {"limit": 200, "max_chars": 1_000_000}
    for kind in ("session", "turn", "entry", "decision", "file", "run"):
        session.send("tools/call", name="query_history", arguments={"kinds": [kind], **whole})
    session.send("tools/call", name="query_history", arguments={"text": "token", "kinds": ["entry"], "limit": 200})
    session.send("tools/call", name="resume_session", arguments={"agent_id": "Test"})
    session.send("prompts/get", name="catch-up", arguments={})
    session.send("prompts/get", name="handover", arguments={"agent_id": "Test"})
    for item in agent.call("query_history", **whole)["items"]:
        session.send("resources/read", uri=f"shiftlog://sessions/{item['session_id']}")
        session.send("resources/read", uri=f"shiftlog://sessions/{item['session_id']}/capsule")


def test_a_secret_in_any_text_of_any_tool_is_nowhere_afterwards(home: Path) -> None:
    secrets = Secrets(20260131)
    with Agent(home, SHIFTLOG_DAEMON_LOG_LEVEL="debug") as agent:
        listed = agent.ask("tools/list")["result"]["tools"]
        session = Session(agent, secrets)
        for tool, schema in accepted_schemas(listed).items():
            plant_everywhere(session, secrets, tool, schema)
        assert len(secrets.planted) > 150
        read_everything_back(agent, session)
        assert session.leaks == []
        check_nothing_at_rest(home, secrets)
        printed = shiftlog(home, "tail", "-n", "10000") + shiftlog(home, "search", "token", "--kind", "entry")
        assert secrets.in_bytes(printed.encode()) == []
        assert "[REDACTED" in printed
    with control(home) as client:
        client.call("daemon.stop")
    eventually(lambda: lock_holder(home) is None)
    check_nothing_at_rest(home, secrets)


def check_nothing_at_rest(home: Path, secrets: Secrets) -> None:
    found = [(name, places) for name, data in everything_at_rest(home) if (places := secrets.in_bytes(data))]
    assert found == []


def test_the_search_for_secrets_finds_one_that_is_there(home: Path) -> None:
    secrets = Secrets(1)
    plain = " ".join(secrets.draw(string.ascii_lowercase, 5) for _ in range(3))
    secrets.planted[plain.split()[1]] = "a word"
    with Agent(home) as agent:
        name = agent.call("open_session", agent="Test", title="fine")["session_id"]
        agent.call("begin_turn", session_id=name, query_title="fine", query_text=f"{plain} {'long ' * AMPLE}")
        found = [name for name, data in everything_at_rest(home) if secrets.in_bytes(data)]
    assert found.count("a cell") >= 2, "in the unpacked text and in the index"
