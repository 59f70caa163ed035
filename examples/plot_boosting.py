"""
Spatially regularised boosting and its controls
===============================================

Boosted stumps, one voxel each, with a penalty under which weight is cheap next to weight: the map
comes out compact. But a penalty that knows the geometry can draw the geometry. So the map is
compared with its controls. Each of them removes one thing and refits.

The method is explained on its :doc:`page </families/boosting>`.
"""

# %%
# Two classes that differ in two compact blobs: class 1 is higher in one and lower in the other.

import numpy as np
from sklearn.ensemble import AdaBoostClassifier
from sklearn.metrics import roc_auc_score

from voxprior import SpatialBoostingClassifier
from voxprior.report.maps import draw_maps
from voxprior.report.pictures.boosting import draw_selection_frequency
from voxprior.simulate import blobs
from voxprior.validation import FewShotSplit, cross_validate

data = blobs((16, 16, 8), n_per_class=40, effect=0.8, random_state=0)
print(data)

# %%
# Accuracy compared with AdaBoost with as many stumps, and with the same boosting with a plain ridge
# penalty without neighbours; 20 scans per class train, five random splits.

model = SpatialBoostingClassifier(data.space, calibrate=True, random_state=0)
for name, estimator in {
    "AdaBoost": AdaBoostClassifier(n_estimators=100),
    "boosting, ridge": SpatialBoostingClassifier(kernel="identity", calibrate=True, random_state=0),
    "boosting, spatial": model,
}.items():
    scores = cross_validate(estimator, data.X, data.y, cv=FewShotSplit(20, n_repeats=5)).scores
    accuracy, loss = scores["accuracy"].mean(), scores["log_loss"].mean()
    print(f"{name:18s} accuracy {accuracy:.2f}   log-loss {loss:.2f}")

# %%
# The map next to its controls: neighbours at the wrong voxels, no neighbours at all, and shuffled
# labels (the mean of five), which show what geometry and noise alone produce.

model.fit(data.X, data.y)
controls = model.controls(data.X, data.y, n_shuffles=5, random_state=0)
maps = {
    "truth": np.abs(data.truth["signal"]),
    "importance": controls.importance,
    "permuted\ncoordinates": controls.permuted,
    "ridge": controls.ridge,
    "shuffled\nlabels": controls.shuffled.mean(axis=0),
}
slices = draw_maps(data.space, maps)
slices

# %%
# How well each map finds the voxels of the blobs (area under the ROC curve; .5 is chance), and the
# share of its weight inside them:

inside = data.truth["blob"] > 0
for name, values in list(maps.items())[1:]:
    name = name.replace("\n", " ")
    area, share = roc_auc_score(inside, values), values[inside].sum() / values.sum()
    print(f"{name:20s} area {area:.2f}   weight inside {share:.2f}")

# %%
# A bootstrap shows how stable the map is: the share of refits in which a voxel is among the sixty
# highest, in the slice where that happens most.

stability = model.selection_frequency(data.X, data.y, n_bootstraps=10, size=60, random_state=0)
stable = draw_selection_frequency(stability, data.space, n_bootstraps=10)
stable
