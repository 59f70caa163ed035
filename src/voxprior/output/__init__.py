"""What a run leaves on disk: whole folders, one command at a time, no loss of the user's files."""

from voxprior.output.clock import RUN_FILE, Clock
from voxprior.output.folders import (
    FINISHED,
    as_written,
    check_files,
    check_folder,
    is_log,
    output_files,
    output_folder,
)

__all__ = ["FINISHED", "RUN_FILE", "Clock", "as_written", "check_files", "check_folder"]
__all__ += ["is_log", "output_files", "output_folder"]
