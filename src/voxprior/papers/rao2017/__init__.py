"""Rao and Marquand, probabilistic pattern recognition (PRoNTo course, 2017): its claims shown."""
