"""best."""
