"""Judging text before it is stored, shown or run.

The masking of secrets (`redaction`, with the detectors beside it), budgets of output (`budget`) and the command policy
(`policy`). Nothing here keeps state between calls or knows about sessions; all of it is pure but `policy.LocalFiles`,
which looks at a disk to say which file a program is.
"""
