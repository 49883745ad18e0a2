"""Wires into containers through the docker or podman client."""
