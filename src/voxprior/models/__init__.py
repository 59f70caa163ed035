"""Arrays to posteriors: one folder a family, no files, no plots."""
