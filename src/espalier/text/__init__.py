"""Text as the papers' parts share it."""
