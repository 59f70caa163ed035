"""
Walk: from fMRIPrep output to a report
======================================

You have preprocessed runs with an events table and a confounds table beside each, and ask whether
faces and houses can be told apart in one subject. This walk reads the files, decodes, tests the
outcome and makes the report.
"""

# %%
# The files
# ---------
#
# A small subject stands in for yours: six runs of 84 volumes in the brain at 8 mm, written to a
# temporary folder under fMRIPrep's names. Faces raise one blob and houses another; noise is smooth,
# the head drifts, and every run has its own baseline.

import tempfile
from pathlib import Path

import nibabel
import numpy as np
import pandas as pd

from voxprior import Decoder, FeatureSharingNB
from voxprior.images import load_runs
from voxprior.report import draw_maps
from voxprior.simulate import blobs, brain
from voxprior.validation import interval, permutation_test

TR, BLOCK, N_BLOCKS = 2.0, 6, 6  # seconds, volumes, blocks in a run
CONDITIONS = ["face", "house"]
MOTION = ["trans_x", "trans_y", "trans_z", "rot_x", "rot_y", "rot_z"]
rng = np.random.default_rng(0)
truth = blobs(brain(8), 1, blob_radius=2, effect=3, random_state=1)
smooth = truth.space.gaussian(1.0)
folder = Path(tempfile.mkdtemp()) / "sub-01" / "func"
folder.mkdir(parents=True)


def write_run(name: str) -> None:
    """Write image, events and confounds of one run: blocks of 12 s with 12 s of rest between."""
    n_volumes = BLOCK * (2 * N_BLOCKS + 2)
    motion = np.cumsum(rng.normal(0, 0.02, (n_volumes, 6)), axis=0)
    noise = (smooth @ rng.normal(size=(truth.space.n_voxels, n_volumes))).T
    volumes = 100 + rng.normal(size=truth.space.n_voxels) + 5 * motion[:, :1] + noise
    onsets = BLOCK * (1 + 2 * np.arange(N_BLOCKS))
    labels = rng.permutation(CONDITIONS * (N_BLOCKS // 2))
    for onset, label in zip(onsets, labels):
        sign = 1 if label == "face" else -1
        response = slice(onset + 2, onset + 2 + BLOCK)  # it comes 4 s after the stimulus
        volumes[response] += np.clip(sign * truth.truth["signal"], 0, None)
    image = truth.image(volumes)
    image.header.set_zooms((*image.header.get_zooms()[:3], TR))
    nibabel.save(image, f"{folder}/{name}_space-MNI152NLin2009cAsym_desc-preproc_bold.nii.gz")
    events = pd.DataFrame({"onset": onsets * TR, "duration": BLOCK * TR, "trial_type": labels})
    events.to_csv(f"{folder}/{name}_events.tsv", sep="\t", index=False)
    confounds = pd.DataFrame(motion, columns=MOTION)
    confounds.to_csv(f"{folder}/{name}_desc-confounds_timeseries.tsv", sep="\t", index=False)
    Path(f"{folder}/{name}_desc-confounds_timeseries.json").write_text("{}")


for run in range(1, 7):
    write_run(f"sub-01_task-objects_run-{run}")
mask = folder / "mask.nii.gz"
nibabel.save(truth.mask_image(), mask)
print(*sorted(path.name for path in folder.glob("*run-1*")), sep="\n")

# %%
# Read them
# ---------
#
# One sample is the mean of a block, four seconds after its onset. Motion is regressed out of every
# run, and every run is standardised by its own statistics, so that its baseline goes away. The runs
# become the groups that training and test never share.

data = load_runs(
    f"{folder}/*_bold.nii.gz",
    events=f"{folder}/*_events.tsv",
    delay=4,
    confounds={"strategy": ("motion",), "motion": "basic"},
    mask=mask,
)
print(data)

# %%
# Decode
# ------
#
# `evaluate` leaves one run out at a time, after an audit of the split. Families that use space are
# told where the voxels are.

decoder = Decoder(FeatureSharingNB())
result = decoder.evaluate(data)
print(result.scores[["accuracy", "log_loss", "auc"]].round(2).to_string())
print("audit:", [finding.name for finding in result.findings] or "nothing found")

# %%
# Trust the number
# ----------------
#
# The interval is the one that belongs to this kind of split. The permutation test exchanges labels
# within runs, as the experiment did.

found = interval(result, "accuracy")
print(f"accuracy {found.estimate:.2f}, 95 % interval {found.low:.2f} to {found.high:.2f}")
print(f"by {found.method}: {found.reason}")
test = permutation_test(
    FeatureSharingNB(data.space), data.X, data.y, data.groups, n_permutations=99
)
print(f"p = {test.p_value:.2f} ({test.scheme}; {test.n_distinct:,} distinct relabellings)")

# %%
# Look at the map
# ---------------
#
# Fitted on all runs, beside the truth. `maps_` has the same as images.

decoder.fit(data)
maps = decoder.voxel_maps()
slices = draw_maps(
    data.space,
    {
        "truth": truth.truth["signal"],
        "face - house": maps["mean_after[face]"] - maps["mean_after[house]"],
        "discriminability": maps["discriminability"],
    },
)
slices

# %%
# Keep it
# -------
#
# The fitted decoder is a file of arrays and parameters, which any new run can be given to. The
# report is one page that opens offline: here it is, as a frame.

saved = decoder.save(folder / "decoder.skops")
again = Decoder.load(saved)
new = load_runs(
    f"{folder}/*run-1*_bold.nii.gz",
    events=f"{folder}/*run-1_events.tsv",
    delay=4,
    confounds={"strategy": ("motion",), "motion": "basic"},
    images=again.masker_,
)
print(again.predict(new))

decoder.generate_report(result, "Faces and houses, sub-01", data, permutation=test)
