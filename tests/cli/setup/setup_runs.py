"""Running `shiftlog setup` in a test's own process."""

import json
from typing import Any

from click.testing import CliRunner, Result

from shiftlog.cli.setup.command import setup


def run(*args: str, status: int = 0) -> Result:
    """Run the command and return what it printed."""
    result = CliRunner().invoke(setup, list(args))
    assert result.exit_code == status, result.output
    return result


def report(*args: str) -> dict[str, Any]:
    """Run the command with --json and return the report."""
    return json.loads(run(*args, "--json").stdout)
