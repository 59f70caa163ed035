"""Many participants: runs found in BIDS folders, each participant alone, and the group."""

from voxprior.study.derivatives import Run, find_derivatives, find_runs, find_subjects
from voxprior.study.study import Study

__all__ = ["Run", "Study", "find_derivatives", "find_runs", "find_subjects"]
