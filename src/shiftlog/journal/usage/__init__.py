"""Totals of tokens and cost, and spending limits."""
