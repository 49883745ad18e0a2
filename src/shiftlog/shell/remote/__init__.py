"""Shells on other machines and in containers: the same engine, spoken to over wires."""
