"""Surface maps (SurfaceImage, GIFTI) to rows of vertices on a known mesh, and back.

The left hemisphere's vertices come first, then the right's; the two meshes become one with two
components, so `VoxelSpace` sees one mesh.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from voxprior.errors import InputError, nearest_file, option
from voxprior.images import bounds, gifti, volumes
from voxprior.images.findings import check_finite
from voxprior.space import VoxelSpace

__all__ = ["EXTENSIONS", "Parts", "is_surface", "mesh_of", "read_surface"]
__all__ += ["surface_array", "surface_image", "surface_rows"]

# Hemispheres and their numbers of vertices in the order of the rows: (("left", 10242), ...).
Parts = tuple[tuple[str, int], ...]

EXTENSIONS = (".func.gii", ".shape.gii", ".surf.gii", ".gii.gz", ".gii")
GIFTI = (".gii", ".gii.gz")
HEMISPHERE = {"l": "left", "r": "right", "lh": "left", "rh": "right"}
HEMISPHERE |= {"left": "left", "right": "right"}
# hemi-L (BIDS), lh. (FreeSurfer), .L. (HCP)
IN_NAME = re.compile(r"hemi-(L|R|left|right)|(?:^|[._-])(lh|rh|L|R)(?=[._-])", re.IGNORECASE)


def is_surface(image: Any) -> bool:
    """Recognise a nilearn SurfaceImage without importing nilearn: it has hemispheres."""
    return hasattr(image, "mesh") and hasattr(getattr(image, "data", None), "parts")


def surface_array(image: Any, name: str = "image") -> np.ndarray:
    """Return the values of all vertices, hemisphere after hemisphere, as float32."""
    for part in image.data.parts.values():
        bounds.refuse_lost_digits(bounds.sampled(part, part.size), name)
    return np.concatenate([np.asarray(part, np.float32) for part in image.data.parts.values()])


def read_surface(item: Any, mesh: Any, name: str) -> Any:
    """Read GIFTI data (a path, or a dict left/right of paths) on a mesh into a SurfaceImage.

    Parameters
    ----------
    item : path or dict
        One hemisphere's file, its side taken from the name (``hemi-L``, ``lh.``, ``.L.``), or both.
    mesh : PolyMesh, dict of mesh files, or the name of a nilearn template such as "fsaverage5"
    name : str
        The files, for error messages.
    """
    from nilearn.surface import PolyData, SurfaceImage

    paths = item if isinstance(item, dict) else {hemisphere(item)[0]: item}
    if mesh is None:
        raise InputError(
            f"{name}: a GIFTI data file does not say where its vertices are",
            remedy=f"Give {option('mesh')}: the mesh file of each hemisphere, or the name of a "
            "template such as fsaverage5",
        )
    unknown = set(paths) - {"left", "right"}
    if unknown:
        raise InputError(
            f"{name}: a hemisphere is unknown", expected="left and right", got=f"{sorted(unknown)}"
        )
    sides = _hemispheres(_poly_mesh(mesh), paths)
    data = PolyData(**{side: _gifti_data(path) for side, path in paths.items()})
    for side, values in data.parts.items():
        n_vertices = len(sides.parts[side].coordinates)
        if len(values) != n_vertices:
            raise InputError(
                f"{paths[side]}: has {len(values)} vertices but the {side} mesh has {n_vertices}",
                remedy=f"Give the mesh on which these data were sampled as {option('mesh')}",
            )
    return SurfaceImage(sides, data)


def _gifti_data(path: Any) -> np.ndarray:
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path}: no such surface file{nearest_file(Path(path))}.")
    try:
        return _surface_values(os.fspath(path))
    except InputError:
        raise  # names the file already
    except Exception as error:  # whatever a parser raises on bytes that somebody else wrote
        raise OSError(
            f"{path}: cannot be read as surface data ({error}); damaged or of another kind."
        ) from error


def _surface_values(path: str) -> np.ndarray:
    from nilearn.surface import load_surf_data

    if path.endswith(GIFTI):
        return gifti.read_maps(path)
    if path.lower().endswith(volumes.EXTENSIONS):  # FreeSurfer keeps surface maps in volumes too
        return volumes.volume_array(volumes.load_volume(Path(path), path), path).squeeze()
    return np.asarray(load_surf_data(path), dtype=np.float32)


def hemisphere(path: Any) -> tuple[str, str]:
    """Side that a file name gives, and the name without it, which both sides of a scan share.

    >>> hemisphere("sub-01_hemi-L_bold.func.gii")
    ('left', 'sub-01_?_bold.func.gii')
    >>> hemisphere("rh.thickness.gii")
    ('right', '?.thickness.gii')
    """
    folder, name = os.path.split(os.fspath(path))
    found = IN_NAME.search(name)
    if not found:
        raise InputError(
            f"{path}: the file name does not name the hemisphere",
            expected="hemi-L, hemi-R, lh., rh., .L. or .R. in the name",
            remedy="Rename the file; in Python a dict says it: {'left': path}",
        )
    start, end = found.span() if found[1] else found.span(2)
    side = HEMISPHERE[(found[1] or found[2]).lower()]
    return side, os.path.join(folder, f"{name[:start]}?{name[end:]}")


def _poly_mesh(mesh: Any) -> Any:
    """Find the mesh; one in files is read once and kept, as every image asks for it."""
    if isinstance(mesh, str):
        return _read_mesh(mesh)
    return _read_mesh(tuple(sorted(mesh.items()))) if isinstance(mesh, dict) else mesh


@lru_cache(maxsize=4)
def _read_mesh(files: Any) -> Any:
    from nilearn.datasets import load_fsaverage
    from nilearn.surface import FileMesh, PolyMesh

    try:
        if isinstance(files, str):
            mesh = load_fsaverage(files)["pial"]
        else:
            mesh = PolyMesh(**{side: _one_mesh(file) for side, file in files})
    except Exception as error:  # whatever a parser raises on bytes that somebody else wrote
        raise OSError(f"The mesh {files} cannot be read ({error}).") from error
    parts = mesh.parts.items()
    return PolyMesh(**{k: m.loaded() if isinstance(m, FileMesh) else m for k, m in parts})


def _one_mesh(file: Any) -> Any:
    from nilearn.surface import InMemoryMesh

    if isinstance(file, (str, os.PathLike)) and os.fspath(file).endswith(GIFTI):
        return InMemoryMesh(*gifti.read_mesh(file))
    return file


def _hemispheres(mesh: Any, sides: Any) -> Any:
    from nilearn.surface import PolyMesh

    missing = [side for side in sides if side not in mesh.parts]
    if missing:
        raise InputError(
            f"The mesh has no {' and '.join(missing)} hemisphere, but the data have one",
            remedy=f"Give a {option('mesh')} of all hemispheres of the data",
        )
    return PolyMesh(**{side: mesh.parts[side] for side in sides})


def mesh_of(image: Any) -> tuple[np.ndarray, np.ndarray, Parts]:
    """Return one mesh of both hemispheres: coordinates, faces, and the vertices of each part."""
    coordinates, faces, parts, offset = [], [], [], 0
    for side in ("left", "right"):
        if side in image.mesh.parts:
            mesh = image.mesh.parts[side]
            coordinates.append(np.asarray(mesh.coordinates, dtype=float))
            faces.append(np.asarray(mesh.faces, dtype=np.int64) + offset)
            parts.append((side, len(coordinates[-1])))
            offset += len(coordinates[-1])
    return np.concatenate(coordinates), np.concatenate(faces), tuple(parts)


def check_mesh(image: Any, space: VoxelSpace, parts: Parts, name: str, other: str) -> None:
    """Raise InputError unless the image's vertices are those of the space."""
    coordinates, _, found = mesh_of(image)
    if found != parts:
        raise InputError(
            f"{name}: its mesh has {_vertices(found)} but that of {other} has {_vertices(parts)}",
            remedy="Sample all surface data on one mesh: surfaces are not resampled here",
        )
    if space.points is not None and not np.allclose(coordinates, space.points, atol=1e-3):
        raise InputError(
            f"{name}: its vertices are at other places than those of {other}",
            remedy=f"Give all images the same {option('mesh')}, for instance the pial one",
        )


def _vertices(parts: Parts) -> str:
    return " and ".join(f"{n} {side} vertices" for side, n in parts)


def surface_rows(
    image: Any, space: VoxelSpace, parts: Parts, name: str, gaps: bool = False
) -> np.ndarray:
    """Read a SurfaceImage's vertices inside the mask: float32 of shape (n_maps, V).

    NaN and infinite values are an error unless `gaps` lets them pass.
    """
    check_mesh(image, space, parts, name, "the mask")
    data = surface_array(image, name)
    rows = np.ascontiguousarray(data.reshape(len(data), -1)[space.sites].T)
    if not gaps:
        check_finite(rows, name)
    return rows


def surface_image(values: np.ndarray, space: VoxelSpace, parts: Parts) -> Any:
    """Turn a map (V,), or maps (T, V), into a SurfaceImage; zero outside the mask."""
    from nilearn.surface import InMemoryMesh, PolyData, PolyMesh, SurfaceImage

    values = np.asarray(values, dtype=np.float32)
    whole = space.unmask(values).T
    points, all_faces = np.array(space.points), np.array(space.faces)
    meshes, data, offset = {}, {}, 0
    for side, n_vertices in parts:
        here = slice(offset, offset + n_vertices)
        inside = (all_faces[:, 0] >= here.start) & (all_faces[:, 0] < here.stop)
        meshes[side] = InMemoryMesh(points[here], all_faces[inside] - offset)
        data[side] = np.ascontiguousarray(whole[here])
        offset += n_vertices
    return SurfaceImage(PolyMesh(**meshes), PolyData(**data))
