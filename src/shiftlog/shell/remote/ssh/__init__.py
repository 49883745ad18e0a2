"""Wires over ssh, with asyncssh: host aliases, keys, known hosts."""
