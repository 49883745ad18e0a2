"""Shells and commands as entries of a journal; implements shell.ports.ShellJournal."""
