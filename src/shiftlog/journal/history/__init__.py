"""Reading back: lists, search, one session whole, paging and fitting."""
