"""
Age from a map: regression with error bars
==========================================

One map per subject and a number to predict. Gaussian process regression finds scale and noise by
evidence and gives every prediction its own standard deviation.

The methods are explained on their :doc:`page </families/gaussian>`.
"""

# %%
# 120 subjects between about 20 and 80 years; the map determines 70 % of the variance of age.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import RidgeCV

from voxprior import GPRegressor
from voxprior.report.maps import draw_maps
from voxprior.simulate import smooth_maps
from voxprior.validation import cross_validate

data = smooth_maps(task="regression", n_samples=120, r2=0.7, random_state=0)
print(data)
print(f"age {data.y.mean():.0f} ± {data.y.std():.0f} years")

# %%
# Ten folds, compared with ridge regression that chooses its penalty by generalised
# cross-validation.

models = {"ridge": RidgeCV(alphas=np.logspace(-2, 6, 33)), "Gaussian process": GPRegressor()}
results = {name: cross_validate(model, data.X, data.y, cv=10) for name, model in models.items()}
for name, result in results.items():
    r2, mae = result.scores["r2"].mean(), result.scores["mae"].mean()
    print(f"{name:18s} R² {r2:.2f}   mean absolute error {mae:.1f} years")

# %%
# Predictions with their standard deviations for subjects that did not train.

model = GPRegressor().fit(data.X[:80], data.y[:80])
predicted, deviation = model.predict(data.X[80:], return_std=True)
scatter, ax = plt.subplots(figsize=(4.4, 4), layout="constrained")
ax.errorbar(data.y[80:], predicted, deviation, fmt="o", alpha=0.7)
ax.plot([15, 85], [15, 85], color="0.7", linestyle="--")
ax.set(xlabel="age", ylabel="predicted age")
inside = np.abs(data.y[80:] - predicted) < deviation
print(f"within one standard deviation: {inside.mean():.2f} (a normal law says .68)")

# %%
# The pattern, next to the truth.

slices = draw_maps(
    data.space,
    {"true pattern": data.truth["pattern"][0], "pattern": model.voxel_maps()["pattern"]},
)
slices
