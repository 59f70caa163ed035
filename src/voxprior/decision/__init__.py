"""Posteriors to actions, for any classifier with predict_proba."""
