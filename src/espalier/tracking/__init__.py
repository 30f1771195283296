"""Records of what was run, and the MLflow view of them."""
