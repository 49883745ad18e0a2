"""Wires over asyncssh: hosts, keys, known hosts."""
