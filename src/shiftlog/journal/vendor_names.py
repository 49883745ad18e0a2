"""Sessions by the ids that their vendors gave them: the names of their origins, and how they are found."""

from shiftlog.facts.batch import origin_key
from shiftlog.store.protocol import Reader


def session_name(vendor_id: str, agent_id: str | None) -> str:
    """Return the name under which the origin of a vendor's session, or of a child in it, is kept."""
    return f"session:{vendor_id}" + ("" if agent_id is None else f"/{agent_id}")


def known_session(reader: Reader, agent: str, vendor_id: str, agent_id: str | None = None) -> str | None:
    """Return the session of a vendor's id, or of a child in it, if the journal has it."""
    key = origin_key(agent, session_name(vendor_id, agent_id))
    origin = reader.origins([key]).get(key)
    if origin is not None:
        return origin.session_id
    return under_vendor_id(reader, agent, vendor_id) if agent_id is None else None


def under_vendor_id(reader: Reader, agent: str, vendor_id: str) -> str | None:
    """Return the session of an agent that was opened under the vendor's id."""
    for session_id in reader.session_ids_of_vendor(vendor_id):
        session = reader.session(session_id)
        if session is not None and session.agent == agent:
            return session_id
    return None
