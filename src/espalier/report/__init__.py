"""The HTML report: figures, tables and verdicts, all computed from a results folder's files."""
