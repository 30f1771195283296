"""Collections: ir_datasets access, the built-in collection, snapshots of queries and judgments."""
