"""One folder a paper: published.csv, run.py, README."""
