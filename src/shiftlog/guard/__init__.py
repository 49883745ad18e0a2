"""Judging text before it is stored, shown or run.

Pure functions only: the masking of secrets (`redaction`, with the detectors beside it). Nothing here reads a
file, keeps state between calls or knows about sessions.
"""
