"""A way to run commands in this process."""

from tests.cli.conftest import refused, run

__all__ = ["refused", "run"]
