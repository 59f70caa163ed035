"""
Compressed random fields: classes that differ in connectivity
=============================================================

Within a class each voxel is predicted by a few others. Where two classes have the same means and
the same variances, and only the dependence between voxels differs, a classifier that looks at
voxels one by one is blind. `RandomFieldClassifier` learns one sparse field per class and asks which
one a scan obeys.

The method is explained on its :doc:`page </families/fields>`.
"""

# %%
# Thirty-six regions in two classes. In each class the regions form a chain, in another random
# order: a region depends on its two neighbours in the chain only, and is standard normal in both
# classes.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from voxprior import RandomFieldClassifier
from voxprior.report.maps import draw_maps
from voxprior.report.pictures.fields import two_circles
from voxprior.simulate import chains
from voxprior.validation import FewShotSplit, cross_validate

data = chains((6, 6), n_per_class=80, n_nodes=36, coupling=0.6, random_state=0)
print(data)

# %%
# Accuracy by the number of training scans per class. The plain field is a ridge regression of each
# region on all others; compression shrinks the sum of absolute coefficients as well, by as much as
# held-out training scans ask for. It helps most where scans are about as few as regions.

models = {
    "Gaussian naive Bayes": GaussianNB(),
    "logistic regression": LogisticRegression(),
    "field, plain": RandomFieldClassifier(n_nodes=None, gamma=1.0, compression=None),
    "field, compressed": RandomFieldClassifier(n_nodes=None),
}
sizes = [10, 20, 36]
accuracy = {
    name: [
        cross_validate(model, data.X, data.y, cv=FewShotSplit(n, n_repeats=5))
        .scores["accuracy"]
        .mean()
        for n in sizes
    ]
    for name, model in models.items()
}
curves, ax = plt.subplots(figsize=(5, 3.4), layout="constrained")
for name, values in accuracy.items():
    ax.plot(sizes, values, "o-", label=name)
    print(f"{name:22s}", *(f"{value:.2f}" for value in values))
ax.axhline(0.5, color="0.6", linestyle="--")
ax.set(xlabel="training scans per class", ylabel="accuracy", xticks=sizes)
ax.legend(frameon=False, fontsize="small")

# %%
# The coefficients that the field learned from 40 scans per class, next to the true ones. Row i
# predicts region i. They are small, never exactly zero.

first = np.concatenate([np.flatnonzero(data.y == c)[:40] for c in (0, 1)])
model = RandomFieldClassifier(n_nodes=None).fit(data.X[first], data.y[first])
learned, axes = plt.subplots(2, 2, figsize=(6.4, 6), layout="constrained")
for row, name, coef in zip(axes, ("truth", "learned"), (data.truth["coef"], model.coef_)):
    for c, ax in enumerate(row):
        drawn = ax.imshow(coef[c], cmap="RdBu_r", vmin=-0.6, vmax=0.6)
        ax.set(title=f"{name}, class {c}", xticks=[], yticks=[])
learned.colorbar(drawn, ax=axes, shrink=0.6, label="coefficient")

# %%
# The same as a graph, for class 0: compression leaves the connections that are there.

plain = RandomFieldClassifier(n_nodes=None, gamma=1.0, compression=None)
plain.fit(data.X[first], data.y[first])
graph = two_circles(
    {"truth": data.truth["coef"][0], "plain": plain.coef_[0], "compressed": model.coef_[0]}
)

# %%
# As maps: how differently each region is connected in the two classes, in truth and as learned.

truth = np.abs(data.truth["coef"][0] - data.truth["coef"][1]).sum(axis=1)
difference = model.voxel_maps()["difference"]
slices = draw_maps(data.space, {"truth": truth, "learned": difference})
print(f"correlation of the two maps: {np.corrcoef(truth, difference)[0, 1]:.2f}")
slices

# %%
# Nodes are ranked by their correlation with the class before fields are trained. That is right for
# whole brains whose classes also differ in means, and blind here, where they do not: with more
# voxels than a field can hold, name the regions of interest by ``nodes``.
