"""One view per page; its data is also its JSON form."""
