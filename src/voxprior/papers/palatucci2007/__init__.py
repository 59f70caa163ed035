"""Palatucci & Mitchell 2007: feature sharing from two examples a class."""
