"""What a run will cost: the chain on samples, and a small model of each stage's cost."""
