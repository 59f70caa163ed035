"""
Feature sharing: two trials per class
=====================================

With two trials per class a voxel's own mean and variance are mostly noise. Its neighbours saw the
same response up to a scale, and all voxels are about equally noisy. `FeatureSharingNB` draws every
mean toward what the neighbours predict, by as much as they agree, and pools the variances.

The method is explained on its :doc:`page </families/sharing>`.
"""

# %%
# An experiment with 1,568 voxels and 16 images per trial. One region of ten responds; its amplitude
# varies smoothly in space and differs between the two classes. Noise is equal everywhere.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.naive_bayes import GaussianNB

from voxprior import FeatureSharingNB
from voxprior.report.maps import draw_maps
from voxprior.report.pictures.sharing import shared_courses
from voxprior.simulate import time_courses
from voxprior.validation import FewShotSplit, cross_validate

data = time_courses((14, 14, 8), amplitude=0.4, n_regions=10, active_regions=1, random_state=0)
print(data)

# %%
# Learning curves: n trials per class train, the trials of the other half of the experiment test,
# ten random splits each. "variances only" leaves the means alone, so the curves say what each half
# of the idea brings.

models = {
    "Gaussian naive Bayes": GaussianNB(),
    "variances only": FeatureSharingNB(data.space, means="none"),
    "feature sharing": FeatureSharingNB(data.space),
}
sizes = [2, 3, 5, 10]
accuracy = {
    name: [
        cross_validate(model, data.X, data.y, cv=FewShotSplit(n)).scores["accuracy"].mean()
        for n in sizes
    ]
    for name, model in models.items()
}
for name, values in accuracy.items():
    print(f"{name:22s}", *(f"{value:.2f}" for value in values))

# %%

curves, ax = plt.subplots(figsize=(5, 3.4), layout="constrained")
for name, values in accuracy.items():
    ax.plot(sizes, values, "o-", label=name)
ax.axhline(0.5, color="0.6", linestyle="--")
ax.set(xlabel="training trials per class", ylabel="accuracy", xticks=sizes)
ax.legend(frameon=False)

# %%
# What sharing does to the means: the difference of the two classes' mean maps when the response is
# highest, from two trials per class, before and after.

train = [*np.flatnonzero(data.y == 0)[:2], *np.flatnonzero(data.y == 1)[:2]]
model = FeatureSharingNB(data.space).fit(data.X[train], data.y[train])
maps = model.voxel_maps()
peak = data.truth["response"].argmax()


def at_peak(name):
    """One of the model's maps at the peak of the response."""
    return maps[name].reshape(data.n_times, -1)[peak]


truth = data.truth["amplitude"][1] - data.truth["amplitude"][0]
before = at_peak("mean_before[1]") - at_peak("mean_before[0]")
after = at_peak("mean_after[1]") - at_peak("mean_after[0]")
slices = draw_maps(data.space, {"truth": truth, "sample means": before, "shared means": after})
slices

# %%
# Closer to the truth, as a correlation over voxels:

for name, values in {"sample means": before, "shared means": after}.items():
    print(f"{name:13s}{np.corrcoef(truth, values)[0, 1]:5.2f}")

# %%
# Mean courses of four responding voxels in class 1, before (thin) and after (thick) sharing.

strongest = np.argsort(-np.abs(data.truth["amplitude"][1]))[:4]
courses = [maps[f"mean_{when}[1]"].reshape(data.n_times, -1) for when in ("before", "after")]
panels = shared_courses(*courses, voxels=strongest)
panels
