"""Shells for people."""
