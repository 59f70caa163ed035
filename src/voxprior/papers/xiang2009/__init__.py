"""Boosting with spatial regularization (Xiang, Xi, Hasson & Ramadge, NIPS 2009)."""
