"""Errors as the MCP face shows them: JSON-RPC codes, masked secrets, and defects reduced to a log reference.

Errors of a tool call are results and take their final shape in `face`.
"""

import logging
import secrets
import traceback
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from shiftlog.guard.secrets.redactor import Redactor
from shiftlog.mcp.calls import Context
from shiftlog.model.errors import Category, InternalError, ShiftlogError, trouble
from shiftlog.text.printable import excerpt

# No change of the request cures these.
_SERVER_SIDE = (Category.FAILED, Category.UNAVAILABLE, Category.INTERNAL)
# Revision 2025-11-25 has a code of its own for this; 2026-07-28 uses the code of bad parameters.
RESOURCE_NOT_FOUND_2025 = -32002

# The services know the operator's rules; this redactor knows only the built-in ones.
_REDACTOR = Redactor()

log = logging.getLogger(__name__)


def protocol_error(error: ShiftlogError) -> MCPError:
    """Return the JSON-RPC form of an error that no tool result can carry: of a resource, prompt or malformed call."""
    code = types.INTERNAL_ERROR if error.category in _SERVER_SIDE else types.INVALID_PARAMS
    return MCPError(code, error.message, error.as_dict())


def resource_not_found(ctx: Context, uri: str, error: Mapping[str, object] | None = None) -> MCPError:
    """Return the JSON-RPC error for a URI that leads to nothing, with the code of the client's revision."""
    modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
    code = types.INVALID_PARAMS if modern else RESOURCE_NOT_FOUND_2025
    return MCPError(code, "Resource not found", {"uri": repeated(uri), **(error or {})})


def resource_error(ctx: Context, uri: str, error: ShiftlogError) -> MCPError:
    """Return the JSON-RPC form of an error that reading a resource raised."""
    if isinstance(error, LookupError):
        return resource_not_found(ctx, uri, error.as_dict())
    return protocol_error(error)


@contextmanager
def edge(where: str, shape: Callable[[ShiftlogError], MCPError]) -> Generator[None]:
    """Turn every error that leaves the block into a JSON-RPC error."""
    try:
        yield
    except ShiftlogError as error:
        raise shape(mask(error)) from None
    except MCPError:
        raise
    except Exception as error:  # noqa: BLE001 - the edge of this face: nothing of the error may leave
        raise shape(defect(where, error)) from None


def defect(where: str, error: BaseException) -> ShiftlogError:
    """Log where an unexpected error arose and return a client-safe error that refers to that log line.

    Exception messages can quote what the user typed, so neither the log nor the client sees them. A machine that is
    short of something (disk, memory, descriptors) is reported as such.
    """
    ref = secrets.token_hex(4)
    lines: list[str] = []
    at: BaseException | None = error
    while at is not None:
        lines += [*traceback.format_tb(at.__traceback__), f"{type(at).__module__}.{type(at).__qualname__}\n"]
        at = at.__cause__ or at.__context__
    log.error("internal error %s in %s\n%s", ref, where, "".join(lines))
    return trouble(error) or InternalError(
        "Internal error", details={"reason": f"logged by the server as {ref}", "ref": ref}
    )


def mask(error: ShiftlogError, *, by_rule: bool = False) -> ShiftlogError:
    """Mask the secrets that an error repeats; not every service does so itself."""
    error.message = _REDACTOR.text(error.message, by_rule=by_rule).text
    error.details = dict(_REDACTOR.value(error.details, by_rule=by_rule)[0])
    return error


def repeated(text: str) -> str:
    """Return a client's text in a form that an error may repeat: printable and without secrets."""
    return excerpt(_REDACTOR.text(text).text)
