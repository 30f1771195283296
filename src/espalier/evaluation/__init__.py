"""Runs, measures, significance and the claims ledger."""
