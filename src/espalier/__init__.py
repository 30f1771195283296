"""Espalier: neural retrieval's quality at a fraction of its cost, reproduced end to end."""

__version__ = "0.1.0"
