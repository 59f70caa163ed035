"""
Walk: which prior pays, and when it stops paying
================================================

A methods researcher compares families on one data set: the same splits for all, flat baselines next
to them, from two training scans per class to all available ones. What matters is the difference on
the same splits, and its interval.
"""

# %%
# Two data sets
# -------------
#
# Each obeys the assumption of one family: neighbours have time courses alike up to scale, which
# feature sharing assumes; what tells the classes apart is compact, which boosting assumes.

import matplotlib.pyplot as plt
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from voxprior.registry import model
from voxprior.simulate import blobs, time_courses
from voxprior.validation import compare_decoders, cross_validate, learning_curve

data_sets = {
    "time courses": time_courses(
        (10, 10, 6), 60, n_times=8, amplitude=0.4, n_regions=10, active_regions=1, random_state=0
    ),
    "compact blobs": blobs((16, 16, 8), 60, effect=0.6, random_state=0),
}

# %%
# The decoders, built by name from the registry. `make` hands the space to those that use it.


def decoders(space):
    """Three families and two baselines that know nothing of space."""
    families = {name: model(name).make(space) for name in ("sharing", "boosting", "gp")}
    return families | {
        "naive Bayes": GaussianNB(),
        "logistic": LogisticRegression(max_iter=1000),
    }


# %%
# Learning curves
# ---------------
#
# All decoders are trained and tested on the same splits, and the training scans of a smaller size
# are among those of a larger one.

sizes = [2, 5, 12, 30]
curves = {
    name: learning_curve(
        decoders(data.space), data.X, data.y, sizes=sizes, n_repeats=6, random_state=0
    )
    for name, data in data_sets.items()
}
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
for ax, (name, curve) in zip(axes, curves.items()):
    for decoder, part in curve.summary("accuracy").groupby("estimator", sort=False):
        ax.errorbar(part["n_per_class"], part["mean"], part["std"], marker="o", label=decoder)
    ax.axhline(0.5, color="0.6", linestyle="--")
    ax.set(title=name, xlabel="training scans per class", xscale="log")
    ax.set_xticks(sizes, [str(n) for n in sizes])
    ax.minorticks_off()
axes[0].set_ylabel("accuracy")
axes[1].legend(frameon=False, fontsize="small")

# %%
# What a prior brings: accuracy above logistic regression on the same splits, with a 95 % interval
# that allows for splits sharing scans. It is cautious: wider than it need be where few scans train
# and many test, as here.

for name, curve in curves.items():
    print(name)
    table = curve.differences("logistic")
    table = table[table["estimator"].isin(["sharing", "boosting", "gp"])]
    print(table.round(2).to_string(index=False), "\n")

# %%
# Accuracy is not all. Log-loss (.69 for a coin) shows which model is aware of its limits: naive
# Bayes is overconfident, and with a few scans per class a Gaussian process stays near one half.

for name, curve in curves.items():
    print(name)
    table = curve.summary("log_loss").pivot(index="estimator", columns="n_per_class")
    print(table["mean"].round(2).to_string(), "\n")

# %%
# A paired test
# -------------
#
# At one size, scan by scan: five folds, the same for both; signs of the differences are flipped at
# random.

data = data_sets["time courses"]
models = decoders(data.space)
sharing, logistic = (
    cross_validate(models[name], data.X, data.y, cv=5) for name in ("sharing", "logistic")
)
for score in ("accuracy", "log_loss"):
    test = compare_decoders(sharing, logistic, score)
    print(f"{score:9s} sharing less logistic: {test.difference:+.2f}   p = {test.p_value:.4f}")
