"""Palatucci & Mitchell 2007: feature sharing from two examples per class."""
