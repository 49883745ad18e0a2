"""The operator's own redaction rules hold for imports, whether they stand in the settings or in a policy."""

import json
from pathlib import Path

import pytest

from shiftlog.app.app import open_app
from shiftlog.ingest.importing.ports import ImportOptions

SECRET = "unit-code-4711-blue"


def prompt(text: str) -> str:
    record = {
        "type": "user",
        "uuid": "00000000-0000-4000-8000-000000000001",
        "sessionId": "00000000-0000-4000-8000-0000000000aa",
        "timestamp": "2026-07-01T12:00:00.000Z",
        "cwd": "/srv/app",
        "version": "2.1.0",
        "message": {"role": "user", "content": text},
    }
    return json.dumps(record) + "\n"


@pytest.mark.parametrize(
    "settings",
    [
        "[[redaction.rules]]\nname = 'unit_code'\npattern = 'unit-code-[0-9]+-[a-z]+'\n",
        "[policy.redaction]\nadd = [{ id = 'unit_code', pattern = 'unit-code-[0-9]+-[a-z]+' }]\n",
    ],
    ids=["settings", "policy"],
)
async def test_a_rule_of_the_operator_masks_what_is_imported(tmp_path: Path, settings: str) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text(settings, encoding="utf-8")
    transcript = tmp_path / "transcript.jsonl"
    transcript.write_text(prompt(f"Open the door with {SECRET} please"), encoding="utf-8")
    async with open_app(home, {}) as app:
        report = await app.imports.run(ImportOptions(paths=(str(transcript),), jobs=0))
        assert report.ok
        found = await app.store.read(lambda reader: [reader.turns(name) for name in reader.session_ids()])
    [[turn]] = found
    assert "[REDACTED:unit_code]" in turn.query_text
    assert SECRET not in turn.query_text
