"""colbert."""
