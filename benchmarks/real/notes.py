"""Why a stock decoder is ahead of the automatic classifier by more than the goal, by task."""

WHY: dict[str, str] = {}
