"""The operator's policy from all the places where it may stand: `config.toml`, policy files, execkit's variables.

All that are given hold at once. A file that cannot be read or a key that nobody knows keeps the server from starting.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from shiftlog import config as configuration
from shiftlog.guard.policy.operator import OperatorPolicy, combine, read_policy
from shiftlog.model.errors import ConfigError

# What servers of execkit are told by variables; they count where no setting of ours says something.
EXECKIT = "EXECKIT_MCP_"
ACCEPT_ANY = f"{EXECKIT}INSECURE_ACCEPT_ANY_HOSTKEY"
_LIMITS = {"EXEC_TIMEOUT": "timeout_s_max", "MAX_SESSIONS": "shells", "SESSION_TTL": "idle_ttl_s"}
_PLACES = {"KEY_DIR": "key_dir", "KNOWN_HOSTS": "known_hosts"}


def operator_policy(home: Path, config: configuration.Config, environ: Mapping[str, str]) -> OperatorPolicy:
    """Read and join every policy; raises ConfigError that names the source and the key."""
    if environ.get(ACCEPT_ANY):
        raise ConfigError.invalid(ACCEPT_ANY, ACCEPT_ANY, "not supported: host keys are always checked")
    return combine(*_policies(home, config, environ))


def _policies(home: Path, config: configuration.Config, environ: Mapping[str, str]) -> Iterator[OperatorPolicy]:
    if config.policy:
        yield read_policy(config.policy, str(home / configuration.FILE_NAME))
    if config.policy_file:
        yield _from_file(config.policy_file)
    elif environ.get(f"{EXECKIT}POLICY_FILE"):
        yield _from_file(environ[f"{EXECKIT}POLICY_FILE"])
    given = set(config.policy)
    table: dict[str, object] = {}
    for variable, key in _PLACES.items():
        if environ.get(EXECKIT + variable) and key not in given:
            table[key] = environ[EXECKIT + variable]
    limits = {
        name: _number(EXECKIT + variable, environ[EXECKIT + variable])
        for variable, name in _LIMITS.items()
        if environ.get(EXECKIT + variable) and name not in cast("Mapping[str, Any]", config.policy.get("limits", {}))
    }
    if limits:
        table["limits"] = limits
    if table:
        yield read_policy(table, "the environment")


def _from_file(name: str) -> OperatorPolicy:
    path = Path(name).expanduser()
    try:
        document: object = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", details={"source": str(path)}) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not valid JSON: {error}", details={"source": str(path)}) from None
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: a JSON object is expected", details={"source": str(path)})
    return read_policy(cast("dict[str, object]", document), str(path))


def _number(variable: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ConfigError.invalid(variable, variable, "a whole number is expected", text) from None
