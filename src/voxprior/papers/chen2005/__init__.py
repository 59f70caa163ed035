"""Chen and Herskovits, KDD 2005: a Bayesian network classifier with inverse tree structure."""
