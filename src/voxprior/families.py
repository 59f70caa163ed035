"""The one registry of families: name to estimator, pictures and docs page.

The command line, the demo, the tests and the docs read it. A new family adds a folder under
``voxprior.models``, a page under ``docs/families`` and one line here.
"""

from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from voxprior.space import VoxelSpace


@dataclass(frozen=True)
class Family:
    """One model a user can ask for by name.

    Nothing is imported before it is asked for, so listing the families costs nothing.
    """

    name: str
    estimator: str
    room: str
    kind: str
    prior: str

    @property
    def estimator_class(self) -> type:
        """The scikit-learn estimator class."""
        return getattr(import_module(f"voxprior.models.{self.room}"), self.estimator)

    @property
    def pictures(self) -> ModuleType:
        """The module that draws what the family defines."""
        return import_module(f"voxprior.report.pictures.{self.room}")

    @property
    def docs(self) -> str:
        """The page of the documentation, relative to its root."""
        return f"families/{self.room}"

    def make(self, space: "VoxelSpace | None" = None, **parameters: Any):
        """Build the estimator; ``space`` goes to those that know where voxels are.

        Examples
        --------
        >>> from voxprior.families import FAMILIES
        >>> FAMILIES["sharing"].make(means="none")
        FeatureSharingNB(means='none')
        """
        accepted = signature(self.estimator_class).parameters
        unknown = sorted(set(parameters) - set(accepted))
        if unknown:
            raise ValueError(
                f"{self.estimator} has no parameter {', '.join(unknown)}; "
                f"it has {', '.join(accepted)}."
            )
        if "space" in accepted and space is not None:
            parameters.setdefault("space", space)
        return self.estimator_class(**parameters)


FAMILIES = {
    family.name: family
    for family in (
        Family("sharing", "FeatureSharingNB", "sharing", "classifier",
               "neighbouring voxels behave alike; all voxels share a noise level"),
        Family("fields", "RandomFieldClassifier", "fields", "classifier",
               "each voxel is predicted by few others"),
        Family("boosting", "SpatialBoostingClassifier", "boosting", "classifier",
               "discriminative voxels are spatially compact"),
        Family("gp", "GPClassifier", "gaussian", "classifier",
               "smooth functions; evidence picks the hyper-parameters"),
        Family("rvm", "RVMClassifier", "gaussian", "classifier",
               "few relevant samples or voxels"),
        Family("network", "InverseTreeClassifier", "network", "classifier",
               "a small set of voxels drives the class; equivalent voxels share one state"),
        Family("gp-regression", "GPRegressor", "gaussian", "regressor",
               "smooth functions; evidence picks the hyper-parameters"),
        Family("rvm-regression", "RVMRegressor", "gaussian", "regressor",
               "few relevant samples or voxels"),
    )
}  # fmt: skip


def family(name: str) -> Family:
    """Look a family up by name, with an error that lists the names there are."""
    if name not in FAMILIES:
        raise ValueError(f"unknown model '{name}': choose one of {', '.join(FAMILIES)}.")
    return FAMILIES[name]
