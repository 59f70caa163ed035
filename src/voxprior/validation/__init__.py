"""Estimator and data to a Result: splits and the one parallel loop."""
