"""
Relevance vector machines: few samples, or few voxels
=====================================================

A relevance vector machine gives every sample, or every voxel, a weight with a prior precision.
Where each has a precision of its own, evidence sends most of them to infinity, so that few weights
remain: the samples that hold the decision, or the voxels that do. Samples share one precision by
default, because a map made of few samples is as noisy as if the others had not been measured.

The method is explained on its :doc:`page </families/gaussian>`.
"""

# %%
# Six voxels among 800 differ between two classes.

import numpy as np

from voxprior import GPClassifier, RVMClassifier
from voxprior.report import draw_maps
from voxprior.report.pictures.gaussian import draw_evidence_path, draw_relevance
from voxprior.simulate import blobs
from voxprior.validation import FewShotSplit, cross_validate

data = blobs((10, 10, 8), n_per_class=80, n_blobs=6, blob_radius=0, effect=1.8, random_state=0)
print(data)

# %%
# The prior that fits the data pays: few voxels. The others look at all voxels and differ in how
# many samples they keep.

models = {
    "Gaussian process": GPClassifier(),
    "RVM of samples": RVMClassifier(),
    "RVM, few samples": RVMClassifier(alpha="each"),
    "RVM of voxels": RVMClassifier(basis="voxels"),
}
for name, model in models.items():
    scores = cross_validate(model, data.X, data.y, cv=FewShotSplit(40, n_repeats=5)).scores
    accuracy, loss = scores["accuracy"].mean(), scores["log_loss"].mean()
    print(f"{name:17s} accuracy {accuracy:.2f}   log-loss {loss:.2f}")

# %%
# Which voxels remain, and which are the true ones?

voxels = RVMClassifier(basis="voxels").fit(data.X, data.y)
true = np.flatnonzero(data.truth["blob"])
print("relevant:", sorted(voxels.relevance_.tolist()))
print("true:    ", true.tolist())
weights = np.zeros(data.space.n_voxels)
weights[voxels.relevance_] = voxels.coef_[0]
slices = draw_maps(data.space, {"truth": data.truth["signal"], "weights": weights})
slices

# %%
# And which samples? The evidence rises with every move of the solver: a sample is taken in, its
# precision is set anew, or it is let go.

samples = RVMClassifier(alpha="each").fit(data.X, data.y)
path = draw_evidence_path([samples.evidence_path_])
path

# %%
# The precisions at its end: few samples are kept, the weights of the others are zero.

kept = draw_relevance(samples.alpha_, samples.relevance_, len(data.y))
kept
