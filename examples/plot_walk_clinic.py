"""
Walk: one map per patient, with age, sex and site
=================================================

A clinical group has one structural map per subject and a table of age, sex and site. Patients are
older than controls, and one site has more of them: a decoder may find age or the scanner instead of
the disease. This walk tells them apart, and turns probabilities into decisions.
"""

# %%
# The data
# --------
#
# Eighty subjects stand in for yours: the disease changes two blobs a little, age changes a third
# one, and every site adds an offset map. Files and table are written to a temporary folder.

import tempfile
from pathlib import Path

import nibabel
import numpy as np
import pandas as pd

from voxprior import BayesDecision, Decoder, GPClassifier
from voxprior.decision import confusion_table
from voxprior.images import load_maps
from voxprior.report import draw_maps
from voxprior.simulate import blobs, brain
from voxprior.validation import LeaveOneGroupOut

N_SUBJECTS = 80
rng = np.random.default_rng(0)
disease = blobs(brain(8), N_SUBJECTS // 2, effect=0.8, blob_radius=3, random_state=2)
patient = disease.y == 1
people = pd.DataFrame(
    {
        "participant_id": [f"sub-{i:02d}" for i in range(1, N_SUBJECTS + 1)],
        "group": np.where(patient, "patient", "control"),
        "age": (60 + 6 * patient + rng.normal(0, 8, N_SUBJECTS)).round(),
        "sex": rng.choice(["f", "m"], N_SUBJECTS),
        "site": np.where(rng.random(N_SUBJECTS) < 0.35 + 0.3 * patient, "north", "south"),
    }
)
ageing = blobs(brain(8), 1, n_blobs=1, effect=1.0, blob_radius=3, random_state=3).truth["signal"]
offset = rng.normal(0, 0.3, disease.space.n_voxels)
X = disease.X + np.outer((people["age"] - 60) / 8, ageing)
X[people["site"] == "north"] += offset

folder = Path(tempfile.mkdtemp())
for name, values in zip(people["participant_id"], X):
    nibabel.save(disease.image(values), folder / f"{name}_gm.nii.gz")
people.to_csv(folder / "participants.tsv", sep="\t", index=False)
nibabel.save(disease.mask_image(), folder / "mask.nii.gz")
print(people.head(4).to_string(index=False))
print(people.groupby("group")[["age"]].mean().round(1).to_string())

# %%
# Read
# ----
#
# Files and rows are joined by name; a file without a row or a row without a file would be an error.

data = load_maps(
    f"{folder}/*_gm.nii.gz",
    table=folder / "participants.tsv",
    label="group",
    covariates=["age", "sex", "site"],
    mask=folder / "mask.nii.gz",
    smoothing_fwhm=16,
)
print(data)

# %%
# Images, covariates, or both?
# ----------------------------
#
# The audit warns that the labels correlate with age and site. That is known here, and dealt with:
# covariates are regressed out, with coefficients of the training fold. So the finding is allowed by
# its name, and stays on record.

decoder = Decoder(GPClassifier())
known = ["labels-confounded"]
adjusted = decoder.evaluate(data, cv=10, allow=known)
for finding in adjusted.findings:
    print(f"[{finding.name}] {finding.message}")

# %%
# The same folds three times: images as they are, images with the covariates regressed out, and
# covariates alone. The images count as far as they add to the covariates.

compared = decoder.evaluate_covariates(data, cv=10, allow=known)
for name, result in compared._asdict().items():
    scores = result.pooled()
    print(f"{name:11s} accuracy {scores['accuracy']:.2f}   area under ROC {scores['auc']:.2f}")

# %%
# Does it carry over to a site it has not seen? Train on one, test on the other, age and sex
# regressed out. The order of the subjects carries over (area under ROC) better than the threshold
# between the classes, which the other site's offset moves.

sites = data.covariates["site"].to_numpy()
across = decoder.evaluate(
    data,
    groups=sites,
    covariates=data.covariates[["age", "sex"]],
    cv=LeaveOneGroupOut(),
    allow=known,
)
print(across.scores[["n_train", "n_test", "balanced_accuracy", "auc"]].round(2).to_string())

# %%
# The map
# -------
#
# Fitted on everybody. The pattern follows the disease; with the covariates regressed out, age
# leaves little in it.

decoder.fit(data)
slices = draw_maps(
    data.space,
    {
        "disease (truth)": disease.truth["signal"],
        "age (truth)": ageing,
        "pattern": decoder.voxel_maps()["pattern"],
    },
)
slices

# %%
# Decide
# ------
#
# In the memory clinic one in five has the disease, to miss it costs three times as much as a false
# alarm, and a second examination costs a third of a false alarm. The decoder then decides at least
# expected cost, or asks for the examination.

careful = Decoder(
    BayesDecision(
        GPClassifier(),
        costs={"control": {"patient": 3}, "patient": {"control": 1}},
        priors={"control": 0.8, "patient": 0.2},
        reject={"cost": 1 / 3},
        reject_label="examine",
    )
)
result = careful.evaluate(data, cv=10, allow=known)
table = result.predictions
print(confusion_table(table["y_true"], table["y_pred"], result.classes, "examine"))

# %%
# A scan to be predicted comes with the covariates that the decoder takes out of it:

new = people.loc[[0], ["age", "sex", "site"]]
probability = decoder.predict_proba(folder / "sub-01_gm.nii.gz", covariates=new)
print(dict(zip(decoder.classes_.tolist(), probability[0].round(2).tolist())))

# %%
# The report of the adjusted decoder, with the audit's findings, as a frame.

decoder.generate_report(adjusted, "Patients and controls", data)
