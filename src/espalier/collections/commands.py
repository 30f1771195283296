"""`espalier collection …`: snapshots of collections and their BM25 candidates."""

from espalier.stage import Room

room = Room("collection")
