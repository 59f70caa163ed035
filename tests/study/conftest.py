"""The BIDS folder that the tests of the command have."""

from tests.cli.conftest import bids, run  # noqa: F401
