"""Shells and commands as entries; fulfils shell.ports.ShellJournal."""
