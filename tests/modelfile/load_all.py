"""Load the model files of a folder one after the other, and say in a line what became of each.

Run as a program: a file that ends the process, or takes its memory, is the last one named.
"""

import re
import sys
import warnings
from pathlib import Path

import numpy as np
from tests.modelfile.models import scans

from voxprior import Decoder
from voxprior.errors import InputError, InputTypeError


def outcome(path):
    """What loading a model and predicting with it ends in."""
    try:
        decoder = Decoder.load(path)
        answers = [np.asarray(decoder.predict(scans(2)))]
        if hasattr(decoder.estimator_, "predict_proba"):
            answers.append(decoder.predict_proba(scans(2)))
    except (InputError, InputTypeError) as error:
        return "refused" if "\n" not in str(error) else "refused in several lines"
    finite = all(np.isfinite(a).all() for a in answers if a.dtype.kind == "f")
    return "predicted" if finite else "predicted what is not finite"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for path in sorted(Path(sys.argv[1]).glob("*.skops")):
        print(f"{path.stem}\t", end="", flush=True)
        print(outcome(path), flush=True)
    # The peak of this program alone: that of getrusage counts what started it too.
    peak = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    print(f"memory\t{peak[1]}")
