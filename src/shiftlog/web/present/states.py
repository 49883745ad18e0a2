"""States of sessions and turns: their words on the page, and the class that colours them."""

STATES = {
    "open": ("Open", "live"),
    "suspended": ("Suspended", "neutral"),
    "closed": ("Closed", "neutral"),
    "awaiting_successor": ("Awaits a successor", "warn"),
    "sealed": ("Sealed", "neutral"),
    "succeeded": ("Continued", "neutral"),
    "in_progress": ("In progress", "live"),
    "interrupted": ("Interrupted", "warn"),
    "completed": ("Completed", "good"),
    "failed": ("Failed", "bad"),
}
