"""The experiments of the five papers, run again beside the published figures.

One subpackage per paper: its first line names the paper, `published.csv` holds the figures as
printed, `run.PAPER` has the experiments as steps that give tables, figures and claims (see
`voxprior.papers.frame`), and `README.md` says how far they agree. ``voxprior reproduce`` lists and
runs them. How a claim comes to its verdict is said in `voxprior.papers.claims`.
"""
