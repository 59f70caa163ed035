"""
Walk: from fMRIPrep output to a report
======================================

You have preprocessed runs with an events table and a confounds table next to each, and ask whether
faces and houses can be told apart in one subject. This walk reads the files, decodes, tests the
outcome and makes the report.
"""

# %%
# The files
# ---------
#
# A small subject stands in for yours: six runs of 84 volumes in the brain at 8 mm, written to a
# temporary folder as a BIDS study that fMRIPrep has preprocessed. Faces raise one blob and houses
# another; noise is smooth, the head drifts, and every run has its own baseline.

import tempfile

from voxprior import Decoder, FeatureSharingNB
from voxprior.images import load_runs
from voxprior.report import draw_maps
from voxprior.simulate import blobs, brain, write_bids
from voxprior.validation import interval, permutation_test

truth = blobs(brain(8), 18, n_groups=6, blob_radius=2, effect=1.5, random_state=1)
study = write_bids(
    f"{tempfile.mkdtemp()}/study", {"sub-01": truth}, ["face", "house"], random_state=0
)
raw, prepared = study / "sub-01/func", study / "derivatives/fmriprep/sub-01/func"
mask = next(prepared.glob("*run-1*_mask.nii.gz"))
print(*sorted(path.name for path in study.rglob("*run-1*")), sep="\n")

# %%
# Read them
# ---------
#
# One sample is the mean of a block, four seconds after its onset. Motion is regressed out of every
# run, and every run is standardised by its own statistics, so that its baseline goes away. The runs
# become the groups that training and test never share.

data = load_runs(
    f"{prepared}/*_bold.nii.gz",
    events=f"{raw}/*_events.tsv",
    delay=4,
    confounds={"strategy": ("motion",), "motion": "basic"},
    mask=mask,
)
print(data)

# %%
# Decode
# ------
#
# `evaluate` leaves one run out at a time, after an audit of the split. Families that use space
# receive the positions of the voxels.

decoder = Decoder(FeatureSharingNB())
result = decoder.evaluate(data)
print(result.scores[["accuracy", "log_loss", "auc"]].round(2).to_string())
print("audit:", [finding.name for finding in result.findings] or "nothing found")
standing = result.plot()
standing

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
# Fitted on all runs, next to the truth. `maps_` has the same as images.

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

saved = decoder.save(study.parent / "decoder.skops")
again = Decoder.load(saved)
new = load_runs(
    f"{prepared}/*run-1*_bold.nii.gz",
    events=f"{raw}/*run-1_events.tsv",
    delay=4,
    confounds={"strategy": ("motion",), "motion": "basic"},
    images=again.masker_,
)
print(again.predict(new))

decoder.generate_report(result, "Faces and houses, sub-01", data, permutation=test)
