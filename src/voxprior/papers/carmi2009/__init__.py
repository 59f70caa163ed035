"""Carmi, Cecchi, Kanevsky, Ramabhadran and Rish, IBM report 2009: compressed random fields."""
