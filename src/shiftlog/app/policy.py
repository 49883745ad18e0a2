"""The operator's policy from all its sources: `config.toml`, policy files, execkit's variables.

All of them hold at once. An unreadable file or an unknown key keeps the server from starting.
"""

import json
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from shiftlog.config.loading import FILE_NAME, POLICY, Config, load, read_own
from shiftlog.guard.policy.operator import OperatorPolicy, combine, read_policy, tightening
from shiftlog.link.wire import POLICY_FILES_VARIABLE
from shiftlog.model.errors import ConfigError, InvalidParameter

if TYPE_CHECKING:
    from shiftlog.app.app import App

LOG = logging.getLogger(__name__)
# Variables of execkit servers; each counts only if no setting of ours does.
EXECKIT = "EXECKIT_MCP_"
ACCEPT_ANY = f"{EXECKIT}INSECURE_ACCEPT_ANY_HOSTKEY"
EXEC_TIMEOUT = f"{EXECKIT}EXEC_TIMEOUT"
_LIMITS = {"MAX_SESSIONS": "shells", "SESSION_TTL": "idle_ttl_s"}
_TIMEOUT_S_MOST = 3600
_HONOURED = frozenset(
    "KEY_DIR KNOWN_HOSTS EXEC_TIMEOUT MAX_SESSIONS SESSION_TTL POLICY_FILE INSECURE_ACCEPT_ANY_HOSTKEY".split()
)
_PLACES = {"KEY_DIR": "key_dir", "KNOWN_HOSTS": "known_hosts"}
_OWN_FILE = "SHIFTLOG_POLICY_FILE"
_HINT = (
    "Name the file as policy_file in config.toml and run `shiftlog daemon stop`, so that it holds for every client; "
    "or serve this client alone with `shiftlog mcp --in-process`"
)


def operator_policy(home: Path, config: Config, environ: Mapping[str, str]) -> OperatorPolicy:
    """Read and join every policy; raises ConfigError that names the source and the key."""
    source = f"{home / FILE_NAME} [{POLICY}]"
    own = [read_policy(config.policy, source)] if config.policy else []
    files = policy_files(home, config, environ)
    return combine(*own, *map(_from_file, files), *_of_execkit(config, environ))


def policy_files(home: Path, config: Config, environ: Mapping[str, str]) -> list[str]:
    """Return the names of the policy files that hold beside `config.toml`."""
    files = [config.policy_file] if config.policy_file else []
    if environ.get(_OWN_FILE):
        # The variable hides what config.toml names; both hold.
        without = {name: value for name, value in environ.items() if name != _OWN_FILE}
        files += [name for name in [load(home, without).policy_file] if name]
    files += cast("list[str]", json.loads(environ.get(POLICY_FILES_VARIABLE, "[]")))
    return list(dict.fromkeys(files))


def without_policy(app: "App", options: Mapping[str, object]) -> dict[str, object]:
    """Return a client's options without its policy; raise ConfigError if the daemon's policy does not contain it.

    All clients share the daemon and its shells, so a client cannot bring rules that the daemon does not have.
    """
    rest = dict(options)
    files, variables = rest.pop("policy_files", []), rest.pop("policy_variables", {})
    if not _are_texts(files) or not isinstance(variables, dict) or not _are_texts([*cast("Any", variables).values()]):
        raise InvalidParameter("The policy of a client is a list of files and a table of variables")
    environ = cast("dict[str, str]", variables)
    held = app.policy or OperatorPolicy()
    for source, policy in (
        *((name, _from_file(name)) for name in cast("list[str]", files)),
        *((f"{EXECKIT}*", policy) for policy in _of_execkit(app.config, environ)),
    ):
        keys = tightening(held, policy)
        if keys:
            raise ConfigError(
                f"The daemon that runs does not hold the policy of {source}: {', '.join(keys)}",
                details={"source": source, "keys": keys},
                hint=_HINT,
            )
    return rest


def command_timeout_s(variables: Mapping[str, str]) -> int | None:
    """Return how long commands of a client of execkit may take unless it says so itself; None for the usual time.

    This is a default and no limit, so each client has its own.
    """
    given = variables.get(EXEC_TIMEOUT)
    return max(1, min(_number(EXEC_TIMEOUT, given), _TIMEOUT_S_MOST)) if given else None


def _are_texts(given: object) -> bool:
    return isinstance(given, list) and all(isinstance(item, str) for item in cast("list[object]", given))


def _of_execkit(config: Config, environ: Mapping[str, str]) -> Iterator[OperatorPolicy]:
    """Read execkit's variables; each counts where no setting of ours says something."""
    if environ.get(ACCEPT_ANY):
        raise ConfigError.invalid(ACCEPT_ANY, ACCEPT_ANY, "not supported: host keys are always checked")
    for name in sorted(environ):
        if name.startswith(EXECKIT) and name.removeprefix(EXECKIT) not in _HONOURED:
            LOG.warning("%s is ignored; the journal records every command (shiftlog replay)", name)
    if environ.get(f"{EXECKIT}POLICY_FILE") and not config.policy_file:
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
        document: object = json.loads(read_own(path), object_pairs_hook=_table)
    except ConfigError:
        raise
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", details={"source": str(path)}) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not valid JSON: {error}", details={"source": str(path)}) from None
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: a JSON object is expected", details={"source": str(path)})
    return read_policy(cast("dict[str, object]", document), str(path))


def _table(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object whose keys stand there once: of two lists under one name, one would hold in silence."""
    table = dict(pairs)
    for name in table:
        if sum(name == other for other, _ in pairs) > 1:
            raise ValueError(f"the key {name!r} stands there twice")
    return table


def _number(variable: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ConfigError.invalid(variable, variable, "a whole number is expected", text) from None
