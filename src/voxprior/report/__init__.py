"""Results to maps, figures and pages."""
