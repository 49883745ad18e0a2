"""Vendor transcripts written from the journal, so that a session whose file is gone can be continued."""
