"""Data with known truth, one generator per family's assumption."""
