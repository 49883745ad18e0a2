"""The policy is read only from files that other users cannot change, and a change of it is recorded."""

import logging
from datetime import UTC, datetime
from pathlib import Path

import pytest

from shiftlog.app.policy import operator_policy
from shiftlog.app.policy_record import note_policy
from shiftlog.config.loading import load
from shiftlog.guard.policy.operator import read_policy
from shiftlog.model.errors import ConfigError

NOW = datetime(2026, 1, 31, tzinfo=UTC)


def test_a_changed_policy_is_recorded_and_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    strict = read_policy({"sandbox_max": "workspace-write", "deny": ["curl"]}, "test")
    assert note_policy(tmp_path, strict, NOW) == {"changed_at": None, "changed": []}
    with caplog.at_level(logging.WARNING):
        changed = note_policy(tmp_path, read_policy({"deny": ["curl"]}, "test"), NOW)
    assert changed == {"changed_at": "2026-01-31T00:00:00.000Z", "changed": ["sandbox_max"]}
    assert "sandbox_max" in caplog.text
    assert note_policy(tmp_path, read_policy({"deny": ["curl"]}, "test"), NOW) == changed
    assert note_policy(tmp_path, None, NOW)["changed"] == ["deny"]


@pytest.mark.parametrize("name", ["config.toml", "policy.json"])
def test_a_file_that_every_user_may_write_is_not_read(tmp_path: Path, name: str) -> None:
    policy = tmp_path / "policy.json"
    policy.write_text('{"deny": ["curl"]}')
    (tmp_path / "config.toml").write_text(f'policy_file = "{policy}"\n')
    assert operator_policy(tmp_path, load(tmp_path, {}), {}).deny == ("curl",)
    (tmp_path / name).chmod(0o666)
    with pytest.raises(ConfigError, match=f"{name}: other users may write to it") as refused:
        operator_policy(tmp_path, load(tmp_path, {}), {})
    assert "chmod go-w" in (refused.value.hint or "")
