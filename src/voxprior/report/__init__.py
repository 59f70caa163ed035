"""Results to maps, figures and pages: Result, then summary, then one self-contained page."""

from importlib import import_module

_HOME = {
    "Report": "voxprior.report.page",
    "draw_maps": "voxprior.report.maps",
    "make_report": "voxprior.report.decoding",
    "model_maps": "voxprior.report.decoding",
    "render": "voxprior.report.page",
    "summarize": "voxprior.report.summary",
}

__all__ = [*_HOME]


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module 'voxprior.report' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value
