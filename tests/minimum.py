"""Print the lowest version of every dependency in pyproject.toml as pip constraints."""

import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
for requirement in project["dependencies"] + project["optional-dependencies"]["dask"]:
    name, lowest = re.fullmatch(r"([\w-]+)(?:\[.*\])?>=([\d.]+)", requirement).groups()
    print(f"{name}=={lowest}")
