"""The BIDS folder that the tests of the command have."""

from tests.cli.conftest import bids, refused, run  # noqa: F401
