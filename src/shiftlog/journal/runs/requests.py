"""The parameters of ending a run: the figures that its launcher may state."""

from shiftlog.journal.requests import SESSION_ID
from shiftlog.params.fields import Field, Integer, Number, Record, Text

FIGURES: dict[str, Field] = {
    "returncode": Integer(minimum=-(2**53), description="Exit code."),
    "duration_ms": Integer(minimum=0, description="Its duration; 0: derived."),
    "input_tokens": Integer(minimum=0, description="Input tokens."),
    "cached_input_tokens": Integer(minimum=0, description="Cached input tokens."),
    "output_tokens": Integer(minimum=0, description="Output tokens."),
    "total_cost_usd": Number(or_blank=True, description="Cost. Default: priced from the tokens."),
    "telemetry_source": Text(max_chars=100, description="Where the token counts come from."),
    "cost_source": Text(max_chars=100, description="Where the cost comes from."),
    "error": Text(lines=True, mends=True, max_chars=2**31, description="Error; makes the run failed."),
}

CLOSE_RUN = Record(fields={"session_id": SESSION_ID, **FIGURES})
