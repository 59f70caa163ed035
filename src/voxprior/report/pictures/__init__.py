"""What each family draws, one file a family."""
