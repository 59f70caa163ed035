"""Files to arrays and back: volumes, surfaces, trials, confounds, StarPlus."""
