"""Model files: what `Decoder.save` writes and `Decoder.load` reads without running code from it.

A model file is a zip archive of stored (never compressed) members:

    voxprior.json       the number of this format and the digest of all other members
    schema.json         the tree of objects, as skops describes it
    1.npy, 2.npy, ..    the arrays that the tree refers to

skops builds whatever a schema names, and calls some of it. So everything is checked before skops
sees the file, in this order, and the first check that fails ends in one line:

    size      the file fits into memory, with the copies that reading makes
    archive   known member names, each once, nothing compressed, sizes that add up to the file
    digest    the members are those that were written; not a signature, anyone can make one
    schema    only nodes of `schema.GRAMMAR`, with names of `schema.TRUSTED` or that the user trusts
    arrays    headers that declare exactly the bytes that follow, and no pickled objects
    fields    what a decoder has, each of its type
    objects   each has the arrays, finite and of the right shapes, of its type in `parts.PARTS`,
              whatever holds it, and those of a machine have the sizes that libsvm takes for granted
    model     it takes what is read of an image, and gives an answer of the right shape to a scan of
              zeros; not of types the user trusts
"""

from voxprior.modelfile.files import check_model, naming, read, write
from voxprior.modelfile.objects import n_scans_kept

__all__ = ["check_model", "n_scans_kept", "naming", "read", "write"]
