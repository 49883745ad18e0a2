"""The database of a team: preparing it, and copying to and from it."""
