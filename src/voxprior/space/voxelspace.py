"""VoxelSpace: where voxels are, which are neighbours, and how near each is to the others.

A space is a *domain* (a regular grid, a set of points, or the vertices of a mesh) and an ordered
selection of its sites: voxel v of an estimator is site `sites[v]` of the domain. Everything an
estimator needs of geometry comes from here, so it treats volumes, point sets and surfaces alike.

| symbol | variable | shape |
|---|---|---|
| v_i, the place of voxel i | `coordinates` | (V, 3) |
| A, voxel indices to millimetres | `affine` | (4, 4) |
| W, the neighbour graph | `adjacency()` | (V, V) sparse, boolean |
| G, the Gaussian kernel | `gaussian()` | (V, V) operator |
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.spatial import cKDTree

from voxprior.notebook import facts_html
from voxprior.space.graphs import (
    STEP_AXES,
    connectivity_steps,
    grid_graph,
    pair_graph,
    radius_steps,
)
from voxprior.space.kernels import GaussianOperator, GridGaussian, PointGaussian

__all__ = ["VoxelSpace"]

Units = Literal["voxel", "mm"]

# Voxel axes count as orthogonal up to this cosine between them: float32 headers round.
ORTHOGONAL = 1e-5


@dataclass(frozen=True, eq=False, repr=False)
class VoxelSpace:
    """Where the voxels of a data set are. Immutable; equal and hashed by content.

    Build one with `from_mask`, `grid`, `from_coordinates` or `from_mesh`.

    Attributes
    ----------
    kind : {"volume", "points", "mesh"}
        What the domain is.
    shape : tuple of int
        Shape of the domain: of the image grid (1 to 3 axes), or (number of points,).
    sites : ndarray of int, shape (V,)
        Flat (C-order) index into the domain of each voxel.
    affine : ndarray of shape (4, 4) or None
        Voxel indices to millimetres; volumes only.
    points : ndarray of shape (n_points, 3) or None
        Positions of the whole domain; point sets and meshes only.
    faces : ndarray of shape (n_faces, 3) or None
        Triangles of the whole mesh; meshes only.

    Examples
    --------
    >>> import numpy as np
    >>> from voxprior.space import VoxelSpace
    >>> mask = np.zeros((3, 3, 3), dtype=bool)
    >>> mask[0, 0, :] = True
    >>> space = VoxelSpace.from_mask(mask)
    >>> space
    VoxelSpace(volume 3 x 3 x 3, 3 voxels)
    >>> space.adjacency(6).toarray().astype(int)
    array([[0, 1, 0],
           [1, 0, 1],
           [0, 1, 0]])
    >>> (space.gaussian(radius=1.0) @ np.array([0.0, 1.0, 0.0])).round(3)
    array([0.607, 1.   , 0.607])
    >>> space.unmask(np.array([1, 2, 3]))[0, 0]
    array([1, 2, 3])
    """

    kind: Literal["volume", "points", "mesh"]
    shape: tuple[int, ...]
    sites: NDArray[np.int64]
    affine: NDArray[np.float64] | None = None
    points: NDArray[np.float64] | None = None
    faces: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        for name in ("sites", "affine", "points", "faces"):
            array = getattr(self, name)
            if array is not None:
                array.flags.writeable = False

    # ---------------------------------------------------------------- ways to build one

    @classmethod
    def from_mask(cls, mask: ArrayLike, affine: ArrayLike | None = None) -> VoxelSpace:
        """Build the space of the true voxels of a boolean mask, in C order of `np.nonzero(mask)`.

        Parameters
        ----------
        mask : boolean array with 1, 2 or 3 axes
            True inside.
        affine : array of shape (4, 4), optional
            Voxel indices to millimetres; needed only for distances in millimetres and for images.
        """
        mask = np.asarray(mask)
        if mask.dtype != bool:
            raise TypeError(
                f"The mask must be a boolean array. Got dtype {mask.dtype} instead; "
                "say which values are inside, for instance mask > 0."
            )
        if mask.ndim not in (1, 2, 3):
            raise ValueError(f"The mask must have 1, 2 or 3 axes. Got shape {mask.shape} instead.")
        sites = np.flatnonzero(mask).astype(np.int64)
        if sites.size == 0:
            raise ValueError(
                f"The mask is empty: none of its {mask.size} voxels is True. "
                "A space needs at least one voxel; check the mask's threshold and grid."
            )
        return cls("volume", mask.shape, sites, _checked_affine(affine))

    @classmethod
    def grid(cls, shape: int | tuple[int, ...], affine: ArrayLike | None = None) -> VoxelSpace:
        """Build the space of every voxel of a regular grid of 1, 2 or 3 axes."""
        return cls.from_mask(np.ones(shape, dtype=bool), affine)

    @classmethod
    def from_coordinates(cls, coordinates: ArrayLike) -> VoxelSpace:
        """Build the space of points at `coordinates` (V, 1 to 3), in any one unit."""
        points = _checked_points(coordinates)
        return cls("points", (len(points),), np.arange(len(points)), points=points)

    @classmethod
    def from_mesh(cls, coordinates: ArrayLike, faces: ArrayLike) -> VoxelSpace:
        """Build the space of all vertices of a triangle mesh; `take` selects some of them.

        Parameters
        ----------
        coordinates : array of shape (n_vertices, 3)
            Vertex positions, usually in millimetres.
        faces : integer array of shape (n_faces, 3)
            Vertex numbers of each triangle.
        """
        points = _checked_points(coordinates)
        faces = np.array(faces)
        if faces.ndim != 2 or faces.shape[1] != 3 or not np.issubdtype(faces.dtype, np.integer):
            raise ValueError(
                "faces must be an integer array of shape (n_faces, 3). "
                f"Got dtype {faces.dtype} and shape {faces.shape} instead."
            )
        if faces.size and not (faces.min() >= 0 and faces.max() < len(points)):
            raise ValueError(
                f"faces must name vertices 0 to {len(points) - 1}. "
                f"Got numbers from {faces.min()} to {faces.max()} instead."
            )
        sites = np.arange(len(points))
        return cls("mesh", (len(points),), sites, points=points, faces=faces.astype(np.int64))

    def take(self, indices: ArrayLike) -> VoxelSpace:
        """Select or reorder voxels: voxel j of the result is voxel `indices[j]` of this space.

        The domain stays, so `unmask` still returns whole images.
        """
        indices = np.asarray(indices)
        if indices.dtype == bool and indices.shape == (self.n_voxels,):
            indices = np.flatnonzero(indices)
        if indices.ndim != 1 or not np.issubdtype(indices.dtype, np.integer) or indices.size == 0:
            raise ValueError(
                f"indices must be a non-empty vector of voxel numbers, or {self.n_voxels} "
                f"booleans. Got dtype {indices.dtype} and shape {indices.shape} instead."
            )
        sites = self.sites[indices]
        if len(np.unique(sites)) < len(sites):
            raise ValueError("indices must name each voxel at most once; some are repeated.")
        return VoxelSpace(self.kind, self.shape, sites, self.affine, self.points, self.faces)

    # ---------------------------------------------------------------- where voxels are

    @property
    def n_voxels(self) -> int:
        """Number of voxels V."""
        return len(self.sites)

    @cached_property
    def coordinates(self) -> NDArray[np.float64]:
        """Voxel positions (V, 3): grid indices in a volume, the given positions elsewhere."""
        if self.points is not None:
            places = self.points[self.sites]
        else:
            places = self._places.astype(np.float64)
        places.flags.writeable = False
        return places

    @property
    def mask(self) -> NDArray[np.bool_]:
        """Boolean array over the domain, true where a voxel of this space is."""
        return self.unmask(np.ones(self.n_voxels, dtype=bool), fill=False)

    @property
    def voxel_sizes(self) -> NDArray[np.float64]:
        """Millimetres along each voxel axis, (3,); volumes with an affine only."""
        return np.linalg.norm(self._millimeter_axes(), axis=0)

    def unmask(self, vector: ArrayLike, fill: Any = 0) -> NDArray:
        """Put values of shape (..., V) back on the domain: shape (..., *shape), `fill` outside."""
        vector = np.asarray(vector)
        if vector.ndim == 0 or vector.shape[-1] != self.n_voxels:
            raise ValueError(
                f"The last axis must have one value for each of the {self.n_voxels} voxels of "
                f"the space. Got shape {vector.shape} instead."
            )
        lead = vector.shape[:-1]
        out = np.full((*lead, int(np.prod(self.shape))), fill, dtype=vector.dtype)
        out[..., self.sites] = vector
        return out.reshape(*lead, *self.shape)

    def apply_mask(self, volume: ArrayLike) -> NDArray:
        """Read the voxels from arrays of shape (..., *shape): the inverse of `unmask`."""
        volume = np.asarray(volume)
        axes = len(self.shape)
        if volume.ndim < axes or volume.shape[volume.ndim - axes :] != self.shape:
            raise ValueError(
                f"The last axes must be the domain's {self.shape}. "
                f"Got shape {volume.shape} instead."
            )
        return volume.reshape(*volume.shape[: volume.ndim - axes], -1)[..., self.sites]

    # ---------------------------------------------------------------- neighbours and kernels

    def adjacency(
        self,
        connectivity: Literal[6, 18, 26] = 26,
        radius: float | None = None,
        units: Units = "voxel",
    ) -> csr_array:
        """Return the neighbour graph: symmetric boolean CSR (V, V) with an empty diagonal.

        Parameters
        ----------
        connectivity : {6, 18, 26}
            Volumes: neighbours share a face; a face or an edge; a face, an edge or a corner.
            For a mesh its edges are used instead, whatever the value.
        radius : float, optional
            Neighbours are the voxels at most this far away, in place of the connectivity.
            A point set needs it.
        units : {"voxel", "mm"}
            Unit of `radius` in a volume; millimetres need an affine. Points and meshes are
            measured in the unit of their coordinates.

        Returns
        -------
        scipy.sparse.csr_array
            Kept by the space and shared between calls, so its arrays are read-only.
        """
        if connectivity not in STEP_AXES:
            raise ValueError(f"connectivity must be 6, 18 or 26. Got {connectivity!r} instead.")
        _check_units(units)
        if radius is not None and not (np.isfinite(radius) and radius > 0):
            raise ValueError(f"radius must be positive and finite. Got {radius!r} instead.")
        key = (connectivity, None) if radius is None else (float(radius), units)
        if key not in self._graphs:
            self._graphs[key] = _read_only(self._build_graph(connectivity, radius, units))
        return self._graphs[key]

    def gaussian(self, radius: float, units: Units = "voxel") -> GaussianOperator:
        """Return the kernel G_ij = exp(-|v_i - v_j|² / (2 radius²)) as an operator.

        Parameters
        ----------
        radius : float
            Standard deviation of the Gaussian.
        units : {"voxel", "mm"}
            Unit of `radius` in a volume; millimetres need an affine whose axes are orthogonal
            (oblique is fine, sheared is not). Points and meshes are measured in the unit of
            their coordinates, along straight lines.

        Returns
        -------
        GaussianOperator
            Has `shape`, `@`, `column(k)`, `row_sums()` and `to_dense()`; never a V x V array.
        """
        _check_units(units)
        if self.points is not None:
            return PointGaussian(self.coordinates, radius)
        spacing = np.ones(3) if units == "voxel" else self._orthogonal_sizes()
        return GridGaussian(self._places, spacing, radius)

    @cached_property
    def _graphs(self) -> dict[tuple, csr_array]:
        return {}

    @property
    def _places(self) -> NDArray[np.int64]:
        """Grid indices (V, 3) of a volume's voxels; missing axes are zero."""
        return np.column_stack(np.unravel_index(self.sites, self._box))

    @property
    def _box(self) -> tuple[int, ...]:
        return self.shape + (1,) * (3 - len(self.shape))

    def _build_graph(self, connectivity: int, radius: float | None, units: Units) -> csr_array:
        if self.points is None:
            if radius is None:
                steps = connectivity_steps(connectivity)
            else:
                axes = np.eye(3) if units == "voxel" else self._millimeter_axes()
                steps = radius_steps(radius, axes, self._box)
            return grid_graph(self._box, self._places, steps)
        if radius is not None:
            pairs = cKDTree(self.coordinates).query_pairs(radius, output_type="ndarray")
            return pair_graph(pairs, self.n_voxels)
        if self.faces is None:
            raise ValueError(
                "A point set has no grid and no edges: give adjacency(radius=...), the distance "
                "up to which points are neighbours."
            )
        position = np.full(self.shape[0], -1)
        position[self.sites] = np.arange(self.n_voxels)
        edges = position[self.faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)]
        return pair_graph(edges[(edges >= 0).all(axis=1)], self.n_voxels)

    def _millimeter_axes(self) -> NDArray[np.float64]:
        """Return the columns of A: the millimetre vector of one step along each voxel axis."""
        if self.affine is None:
            raise ValueError(
                f"Millimetres need a volume with an affine; {self!r} has none. Build it with "
                'from_mask(mask, affine), or measure with units="voxel".'
            )
        return self.affine[:3, :3]

    def _orthogonal_sizes(self) -> NDArray[np.float64]:
        sizes = np.linalg.norm(axes := self._millimeter_axes(), axis=0)
        cosines = (axes.T @ axes) / np.outer(sizes, sizes) - np.eye(3)
        if np.abs(cosines).max() > ORTHOGONAL:
            raise ValueError(
                "The affine is sheared (voxel axes meet at a cosine of "
                f"{np.abs(cosines).max():.2g}), so a kernel in millimetres is not separable. "
                'Resample the images to orthogonal axes, measure with units="voxel", or build the '
                "space with from_coordinates in millimetres (exact, but a product costs V² steps)."
            )
        return sizes

    # ---------------------------------------------------------------- a value, not a container

    @cached_property
    def digest(self) -> str:
        """Hexadecimal fingerprint of the content, the same in every process."""
        sha = hashlib.sha256(f"{self.kind} {self.shape}".encode())
        for array in (self.sites, self.affine, self.points, self.faces):
            sha.update(b"none" if array is None else np.ascontiguousarray(array).tobytes())
            sha.update(f"{None if array is None else array.shape}".encode())
        return sha.hexdigest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, VoxelSpace):
            return NotImplemented
        return self is other or (self.n_voxels == other.n_voxels and self.digest == other.digest)

    def __hash__(self) -> int:
        return int(self.digest[:15], 16)

    def __copy__(self) -> VoxelSpace:
        return self

    def __deepcopy__(self, memo: dict) -> VoxelSpace:
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Leave the caches behind: they are rebuilt on demand."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state, shape=tuple(int(n) for n in state["shape"]))
        self.__dict__.update(state)
        self.__post_init__()

    def __len__(self) -> int:
        return self.n_voxels

    def __repr__(self) -> str:
        size = (
            " x ".join(map(str, self.shape)) if self.kind == "volume" else f"of {self.shape[0]:,}"
        )
        return f"VoxelSpace({self.kind} {size}, {self.n_voxels:,} voxels)"

    def _repr_html_(self) -> str:
        rows = {"kind": self.kind, "shape": " x ".join(map(str, self.shape))}
        rows["voxels"] = f"{self.n_voxels:,}"
        if self.affine is not None:
            sizes = np.linalg.norm(self.affine[:3, :3], axis=0)
            rows["millimetres"] = " x ".join(f"{size:g}" for size in sizes)
        return facts_html("VoxelSpace", rows)


# -------------------------------------------------------------------- checks


def _checked_affine(affine: ArrayLike | None) -> NDArray[np.float64] | None:
    if affine is None:
        return None
    affine = np.array(affine, dtype=np.float64)
    if affine.shape != (4, 4):
        raise ValueError(f"affine must have shape (4, 4). Got {affine.shape} instead.")
    if not np.isfinite(affine).all() or np.linalg.matrix_rank(affine[:3, :3]) < 3:
        raise ValueError(f"affine must be finite and invertible. Got\n{affine}\ninstead.")
    return affine


def _checked_points(coordinates: ArrayLike) -> NDArray[np.float64]:
    points = np.array(coordinates, dtype=np.float64)
    if points.ndim != 2 or len(points) == 0 or points.shape[1] not in (1, 2, 3):
        raise ValueError(
            "coordinates must have shape (V, 1), (V, 2) or (V, 3) with V > 0. "
            f"Got shape {points.shape} instead."
        )
    if not np.isfinite(points).all():
        raise ValueError("coordinates must be finite; some are NaN or infinite.")
    return np.pad(points, ((0, 0), (0, 3 - points.shape[1])))


def _check_units(units: str) -> None:
    if units not in ("voxel", "mm"):
        raise ValueError(f'units must be "voxel" or "mm". Got {units!r} instead.')


def _read_only(graph: csr_array) -> csr_array:
    for array in (graph.data, graph.indices, graph.indptr):
        array.flags.writeable = False
    return graph
