"""The one interface for people who have images, and what its methods return."""

from voxprior.decoder.comparison import Comparison
from voxprior.decoder.decoder import Decoder
from voxprior.decoder.decoding import Decoding, Naming
from voxprior.decoder.mapping import Mapped
from voxprior.decoder.others import with_prior_from
from voxprior.decoder.preparation import prepared

__all__ = ["Comparison", "Decoder", "Decoding", "Mapped", "Naming", "prepared", "with_prior_from"]
