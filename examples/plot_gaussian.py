"""
Gaussian processes: probabilities to act on
===========================================

A Gaussian process puts a prior over smooth functions of the scan and integrates over all of them.
The evidence chooses scale and noise, so no inner cross-validation is needed. What comes out is a
probability one may act on, for two classes or more.

The method is explained on its :doc:`page </families/gaussian>`.
"""

# %%
# Three classes whose log-odds are smooth weight maps, so that the true probabilities are known. 100
# scans train, 400 test.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from voxprior import GPClassifier
from voxprior.report.maps import draw_maps
from voxprior.report.pictures.gaussian import draw_evidence_surface
from voxprior.simulate import smooth_maps

data = smooth_maps((14, 14, 8), n_samples=500, n_classes=3, strength=4, random_state=0)
X, y, X_test, y_test = data.X[:100], data.y[:100], data.X[100:], data.y[100:]
true_probability = data.truth["probability"][100:]
print(data)

# %%
# Log-loss counts probabilities, not only answers: one that says .99 and is wrong pays for it.
# Accuracy and log-loss of the truth are the best any model can do.

models = {
    "logistic regression": LogisticRegression(max_iter=2000).fit(X, y),
    "Gaussian process": GPClassifier().fit(X, y),
}
probability = {name: model.predict_proba(X_test) for name, model in models.items()}
for name, p in (probability | {"the truth": true_probability}).items():
    accuracy = np.mean(p.argmax(axis=1) == y_test)
    print(f"{name:20s} accuracy {accuracy:.2f}   log-loss {log_loss(y_test, p):.2f}")

# %%
# Stated against true probability of class 0, one dot per test scan.

scatter, axes = plt.subplots(1, 2, figsize=(7.5, 3.6), sharey=True, layout="constrained")
for ax, (name, p) in zip(axes, probability.items()):
    ax.plot([0, 1], [0, 1], color="0.7", linestyle="--")
    ax.plot(p[:, 0], true_probability[:, 0], ".", alpha=0.5)
    ax.set(title=name, xlabel="stated probability of class 0")
axes[0].set_ylabel("true probability")

# %%
# Evidence as a function of the kernel's scale, of class 0 against the rest: the fit is at its top.

model = models["Gaussian process"]
best = model.theta_[0]
log_scale = best + np.linspace(-3, 3, 25)
evidence = draw_evidence_surface(model.evidence_surface(log_scale), log_scale, best=best)
evidence

# %%
# What the model used for class 0. Weights show which combination of voxels decides; the pattern
# (what a voxel alone has to do with the decision) is what one may read as a map.

maps = model.voxel_maps()
slices = draw_maps(
    data.space,
    {
        "true pattern": data.truth["pattern"][0],
        "pattern": maps["pattern:0"],
        "weights": maps["weight:0"],
    },
)
slices
