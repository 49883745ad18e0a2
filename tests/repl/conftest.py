"""The fixtures of the dialect's tests serve the REPL's as well."""

from tests.dialects.mcpserver.conftest import begun_log, log

__all__ = ["begun_log", "log"]
