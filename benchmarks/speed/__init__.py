"""Peers raced side by side in one process."""
