"""Going back with files and conversation: both or neither, and what others changed is not taken along unasked."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.ingest.hooks.test_turn_checkpoints import SESSION, Client
from tests.ingest.import_app import Claude


@dataclass(slots=True)
class Talk:
    """A client with hooks and a transcript, one file a turn."""

    client: Client
    transcript: Path
    said: Claude = field(default_factory=lambda: Claude(session=SESSION, started=datetime.now(UTC)))

    def turn(self, number: int, **fields: Any) -> str:
        """Do a turn that writes a file; return its id. `fields` are more ones of the record of its prompt."""
        self.client.hook("UserPromptSubmit", prompt=f"do {number}", transcript_path=str(self.transcript))
        self.client.shiftlog("checkpoints", status=None)
        (self.client.project / f"{number}.txt").write_text(f"{number}\n")
        self.said.prompt(f"do {number}", **fields).says(f"did {number}").ends()
        self.transcript.write_text("".join(json.dumps(record) + "\n" for record in self.said.records))
        self.client.hook("Stop", last_assistant_message=f"did {number}", transcript_path=str(self.transcript))
        return str(self.client.turn(number)["request_id"])

    def files(self) -> set[str]:
        return {path.name for path in self.client.project.iterdir() if path.is_file()}

    def transcripts(self) -> list[Path]:
        return sorted(self.transcript.parent.iterdir())


@pytest.fixture
def talk(home: Path, tmp_path: Path) -> Talk:
    project = tmp_path / "work"
    project.mkdir()
    folder = tmp_path / ".claude" / "projects" / "work"
    folder.mkdir(parents=True)
    (folder / f"{SESSION}.jsonl").touch()
    made = Talk(Client(home=home, project=project), folder / f"{SESSION}.jsonl")
    made.client.hook("SessionStart", source="startup", transcript_path=str(made.transcript))
    return made


def rewound(talk: Talk, turn: str, *options: str, status: int = 0) -> dict[str, Any]:
    done = talk.client.shiftlog("rewind", turn, "--with-conversation", "--json", *options, status=status)
    return done.json() if status == 0 else json.loads(done.err or done.out)


def test_files_and_conversation_go_back_together_and_the_old_transcript_stays(talk: Talk) -> None:
    _, second, third = talk.turn(1), talk.turn(2), talk.turn(3)
    before = talk.transcript.read_bytes()
    plan = talk.client.shiftlog("rewind", second, "--with-conversation", "--dry-run").out
    assert "The new conversation would end before 2 turns.\n" in plan
    assert talk.files() == {"1.txt", "2.txt", "3.txt"}
    assert talk.transcripts() == [talk.transcript]
    done = rewound(talk, second)
    assert talk.files() == {"1.txt"}
    about = done["conversation"]
    assert about["turns_left"] == [second, third]
    new = Path(about["transcript"])
    assert sorted(talk.transcripts()) == sorted([talk.transcript, new])
    assert about["command"] == f"claude --resume {new.stem}"
    assert new.stem != SESSION
    assert talk.transcript.read_bytes() == before
    records = [json.loads(line) for line in new.read_text().splitlines()]
    assert {record["sessionId"] for record in records if "sessionId" in record} == {new.stem}
    text = new.read_text()
    assert "did 1" in text
    assert "do 2" not in text
    (entry,) = talk.client.entries("session.rewound")
    assert entry["body"]["vendor_session_id"] == new.stem
    assert entry["body"]["request_id"] == second


def test_what_the_user_rewound_before_the_turn_stays_behind(talk: Talk) -> None:
    talk.turn(1)
    behind_first = talk.said.records[-1]["uuid"]
    talk.turn(2)
    third = talk.turn(3, parentUuid=behind_first)
    text = Path(rewound(talk, third)["conversation"]["transcript"]).read_text()
    assert "did 1" in text
    assert "do 2" not in text


def test_what_another_changed_since_stops_it_unless_it_is_kept_or_forced(talk: Talk) -> None:
    talk.turn(1)
    second = talk.turn(2)
    (talk.client.project / "2.txt").write_text("a person's\n")
    (talk.client.project / "mine.txt").write_text("mine\n")
    said = talk.client.shiftlog("rewind", second, "--with-conversation", status=1).err
    assert "changed since by another than this session: 2.txt, mine.txt; nothing was rewound" in said
    assert "--keep PATH" in said
    assert talk.transcripts() == [talk.transcript]
    assert (talk.client.project / "2.txt").read_text() == "a person's\n"
    rewound(talk, second, "--keep", "mine.txt", "--keep", "2.txt")
    assert talk.files() == {"1.txt", "2.txt", "mine.txt"}
    rewound(talk, second, "--force")
    assert talk.files() == {"1.txt"}


def test_a_transcript_that_cannot_be_written_leaves_the_files(talk: Talk) -> None:
    talk.turn(1)
    second = talk.turn(2)
    talk.transcript.parent.rename(talk.transcript.parent.with_name("away"))
    talk.transcript.parent.write_text("no folder")
    said = talk.client.shiftlog("rewind", second, "--with-conversation", status=None)
    assert "Cannot write" in said.err
    assert talk.files() == {"1.txt", "2.txt"}
    assert not talk.client.entries("session.rewound")


def test_before_the_first_turn_there_is_no_conversation(talk: Talk) -> None:
    first = talk.turn(1)
    said = talk.client.shiftlog("rewind", first, "--with-conversation", status=None).err
    assert "no turn comes before it" in said
    assert talk.files() == {"1.txt"}
    assert "belong to --with-conversation" in talk.client.shiftlog("rewind", first, "--force", status=2).err
