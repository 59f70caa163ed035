"""The experiments of the five papers, run again beside the published figures.

One subpackage per paper: its first line names the paper, `published.csv` holds the figures as
printed, `run.main` does the experiments, `README.md` says how far they agree. ``voxprior
reproduce`` lists and runs them; ``python -m voxprior.papers.NAME.run`` is the same.
"""
