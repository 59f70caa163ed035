"""Families, and peers, on real data."""
