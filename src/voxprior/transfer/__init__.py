"""Priors learned from other subjects: decode a new person from one scan per class.

`TransferPrior` learns from others and adapts to a new subject, `TransferClassifier` is the
classifier it returns.
"""

from voxprior.transfer.classifier import TransferClassifier
from voxprior.transfer.prior import GroupPrior, TransferPrior

__all__ = ["GroupPrior", "TransferClassifier", "TransferPrior"]
