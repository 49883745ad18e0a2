"""One import: compare files, read them in workers, compose and mask facts, report. The door: `service` and `ports`."""
