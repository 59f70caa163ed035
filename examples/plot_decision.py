"""
Decisions: costs, prevalence, abstention
========================================

A probability is not yet a decision. What to do also depends on what errors cost, on how frequent
the classes are where the decision is made, and on whether one may leave a scan undecided.
`BayesDecision` wraps any classifier that gives probabilities and takes the three into account.
"""

# %%
# Four hundred simulated patients and controls; half of them train, half test.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

from voxprior import BayesDecision
from voxprior.decision import (
    TemperatureCalibrated,
    average_repeats,
    confusion_table,
    expected_cost_curve,
    proper_scores,
    reliability_curve,
    risk_coverage_curve,
)
from voxprior.simulate import smooth_maps

data = smooth_maps((10, 10, 6), n_samples=400, strength=3, smoothness=1.5, random_state=0)
labels = np.array(["control", "patient"])[data.y]
X, y, X_test, y_test = data.X[:200], labels[:200], data.X[200:], labels[200:]

# %%
# A classifier first, with probabilities that can be believed: one temperature, learned on scans
# held out inside the training data, softens what logistic regression is too sure of in 600 voxels.

plain = LogisticRegression(max_iter=1000).fit(X, y)
calibrated = TemperatureCalibrated(LogisticRegression(max_iter=1000)).fit(X, y)
print(f"temperature {calibrated.temperature_:.1f}")
for name, model in {"plain": plain, "calibrated": calibrated}.items():
    scans = average_repeats(y_test, model.predict_proba(X_test), model.classes_)
    scores = proper_scores(scans)
    print(f"{name:11s} accuracy {model.score(X_test, y_test):.2f}   log-loss {scores.log_loss:.2f}")

# %%
# Share of right answers by stated confidence: dots on the diagonal are honest.

diagram, ax = plt.subplots(figsize=(4.2, 3.6), layout="constrained")
ax.plot([0.5, 1], [0.5, 1], color="0.7", linestyle="--")
for name, model in {"plain": plain, "calibrated": calibrated}.items():
    bins = reliability_curve(average_repeats(y_test, model.predict_proba(X_test), model.classes_))
    ax.plot(bins.confidence, bins.frequency, "o-", label=f"{name}, gap {bins.ece:.2f}")
ax.set(xlabel="stated confidence", ylabel="share right")
ax.legend(frameon=False)

# %%
# **Costs.** To miss a patient costs five times as much as to call a control back: the rows are
# actions, the columns the truth.

costs = {"control": {"patient": 5}, "patient": {"control": 1}}
careful = BayesDecision(calibrated, costs=costs).fit(X, y)
print(confusion_table(y_test, calibrated.predict(X_test), calibrated.classes_), "\n")
print(confusion_table(y_test, careful.predict(X_test), careful.classes_))

# %%
# **Prevalence.** Where one in ten is a patient the same scan is weaker evidence. `priors` corrects
# the probabilities; `adapt_priors` learns the prevalence from unlabelled scans instead.

screening = BayesDecision(calibrated, priors={"control": 0.9, "patient": 0.1}).fit(X, y)
at_training, at_screening = calibrated.predict_proba(X_test), screening.predict_proba(X_test)
for i in range(3):
    print(f"p(patient): {at_training[i, 1]:.2f} as trained, {at_screening[i, 1]:.2f} in screening")

rng = np.random.default_rng(0)
patients, controls = np.flatnonzero(y_test == "patient"), np.flatnonzero(y_test == "control")
clinic = np.append(rng.choice(patients, 10, replace=False), rng.choice(controls, 70, replace=False))
adapted = BayesDecision(calibrated).fit(X, y).adapt_priors(X_test[clinic])
print(f"share of patients: {10 / 80:.2f}, estimated without labels: {adapted.priors_[1]:.2f}")

# %%
# **Abstention.** A scan whose largest probability is below a threshold is left to a second reading.
# Fewer scans are decided, and more of them rightly.

cautious = BayesDecision(calibrated, reject=0.8).fit(X, y)
answers = cautious.predict(X_test)
decided = answers != "reject"
right = np.mean(answers[decided] == y_test[decided])
print(confusion_table(y_test, answers, cautious.classes_))
print(f"decided: {decided.mean():.2f}   right among them: {right:.2f}")

# %%
# All thresholds at once: errors among the scans that are decided, and the mean cost where an
# abstention costs a fifth of an error.

scans = average_repeats(y_test, calibrated.predict_proba(X_test), calibrated.classes_)
risk, cost = risk_coverage_curve(scans), expected_cost_curve(scans, abstain=0.2)
curves, (errors, mean_cost) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
errors.plot(risk.coverage, risk.risk)
errors.set(xlabel="share of scans decided", ylabel="errors among them")
mean_cost.plot(cost.threshold, cost.cost)
mean_cost.axvline(0.8, color="0.7", linestyle="--")
mean_cost.set(xlabel="threshold on the largest probability", ylabel="mean cost")
