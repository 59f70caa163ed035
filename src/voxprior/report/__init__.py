"""Results to maps, figures and pages: Result, then summary, then one self-contained page."""

from voxprior.report.decoding import make_report, model_maps, report_of
from voxprior.report.maps import draw_maps
from voxprior.report.page import Report, render
from voxprior.report.summary import summarize

__all__ = ["Report", "draw_maps", "make_report", "model_maps", "render", "report_of", "summarize"]
