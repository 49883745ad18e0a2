"""Totals of tokens and cost, and the limits that the operator sets to spending."""
