"""Arrays to posteriors: one folder per family, no files, no plots."""
