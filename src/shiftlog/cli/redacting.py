"""`shiftlog redact`: shows what redaction would mask in a file, and by which rule. No daemon is needed."""

import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shiftlog.cli.connecting import json_option, opened_home
from shiftlog.cli.screen.output import print_json
from shiftlog.text.printable import terminal_line

if TYPE_CHECKING:
    from shiftlog.guard.secrets.redactor import FoundSecret

NOTHING_FOUND, SECRETS_FOUND = 0, 1


@click.command(short_help="Show what would be masked in a file, and by which rule.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@json_option
def redact(file: str, as_json: bool) -> int:
    """Show the secrets that redaction would mask in FILE, or in standard input for `-`.

    Each line gives the place (line:column), the rule and the text around the secret, masked. The secret itself is never
    printed, and FILE is not changed. The rules are the built-in ones and those of config.toml and the policy file:
    silence a rule there by its name, or add your own.

    The exit status is 0 if nothing would be masked, 1 if something would, and 2 if FILE cannot be read.

    \b
    Examples:
      shiftlog redact .env
      git diff | shiftlog redact -
      shiftlog redact --json build.log
    """
    from shiftlog.app.app import operator_redactor

    data = sys.stdin.buffer.read() if file == "-" else _read(file)
    found = operator_redactor(Path(opened_home()), os.environ).explain(data)
    if as_json:
        print_json({"file": file, "secrets": [_described(secret) for secret in found]})
    else:
        _print(file, found)
    return SECRETS_FOUND if found else NOTHING_FOUND


def _read(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise click.UsageError(f"'{file}' cannot be read: {error.strerror}.") from error


def _described(secret: "FoundSecret") -> dict[str, object]:
    described = asdict(secret)
    described["class"] = described.pop("klass")
    return described


def _print(file: str, found: "list[FoundSecret]") -> None:
    name = "" if file == "-" else f"{terminal_line(file)}:"
    for secret in found:
        click.echo(f"{name}{secret.line}:{secret.column}  {secret.rule}  {terminal_line(secret.shown.strip())}")
    if not found:
        click.echo("Nothing would be masked.", err=True)
