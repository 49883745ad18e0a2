"""The record as a whole: a team's database, copies, archives, legal holds and retention."""
