"""Literature that a methods paragraph may cite, as BibTeX.

`REFERENCES` has entries by how a paragraph cites them, so whatever the paragraph cites is listed.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import NamedTuple


class Reference(NamedTuple):
    """An entry: kind, key and fields of BibTeX."""

    kind: str
    key: str
    fields: dict[str, str]

    def bibtex(self) -> str:
        """Return the entry as text."""
        lines = [f"  {name} = {{{value}}}" for name, value in self.fields.items()]
        return f"@{self.kind}{{{self.key},\n" + ",\n".join(lines) + "\n}"


def _article(key: str, author: str, title: str, journal: str, volume: str, year: str) -> Reference:
    fields = {"author": author, "title": title, "journal": journal, "volume": volume, "year": year}
    return Reference("article", key, fields)


def _talk(key: str, author: str, title: str, booktitle: str, year: str) -> Reference:
    fields = {"author": author, "title": title, "booktitle": booktitle, "year": year}
    return Reference("inproceedings", key, fields)


REFERENCES = {
    "Palatucci & Mitchell 2007": _talk(
        "palatucci2007", "Palatucci, Mark and Mitchell, Tom M.",
        "Classification in very high dimensional problems with handfuls of examples",
        "Knowledge Discovery in Databases: PKDD 2007", "2007"),
    "Carmi et al. 2009": Reference("techreport", "carmi2009", {
        "author": "Carmi, Avishy and Cecchi, Guillermo and Kanevsky, Dimitri and Ramabhadran, "
        "Bhuvana and Rish, Irina", "title": "Classification via compressed random fields",
        "institution": "IBM Research", "year": "2009"}),
    "Xiang et al. 2009": _talk(
        "xiang2009", "Xiang, Zhen James and Xi, Yongxin and Hasson, Uri and Ramadge, Peter J.",
        "Boosting with spatial regularization", "Advances in Neural Information Processing Systems",
        "2009"),
    "Rasmussen & Williams 2006": Reference("book", "rasmussen2006", {
        "author": "Rasmussen, Carl Edward and Williams, Christopher K. I.",
        "title": "Gaussian Processes for Machine Learning", "publisher": "MIT Press",
        "year": "2006"}),
    "Tipping 2001": _article(
        "tipping2001", "Tipping, Michael E.",
        "Sparse Bayesian learning and the relevance vector machine",
        "Journal of Machine Learning Research", "1", "2001"),
    "Chen & Herskovits 2005": _talk(
        "chen2005", "Chen, Rong and Herskovits, Edward H.",
        "A Bayesian network classifier with inverse tree structure for voxelwise magnetic "
        "resonance image analysis",
        "Proceedings of the ACM SIGKDD International Conference on Knowledge Discovery in Data "
        "Mining", "2005"),
    "Friedman 1989": _article(
        "friedman1989", "Friedman, Jerome H.", "Regularized discriminant analysis",
        "Journal of the American Statistical Association", "84", "1989"),
    "voxprior developers 2026": Reference("manual", "voxprior-auto", {
        "author": "{The voxprior developers}",
        "title": "The automatic default: an average of models weighed by left-out scans",
        "note": "In the documentation of voxprior", "year": "2026"}),
    "Brown et al. 2001": _article(
        "brown2001", "Brown, Lawrence D. and Cai, T. Tony and DasGupta, Anirban",
        "Interval estimation for a binomial proportion", "Statistical Science", "16", "2001"),
    "Nadeau & Bengio 2003": _article(
        "nadeau2003", "Nadeau, Claude and Bengio, Yoshua",
        "Inference for the generalization error", "Machine Learning", "52", "2003"),
    "Davison & Hinkley 1997": Reference("book", "davison1997", {
        "author": "Davison, A. C. and Hinkley, D. V.",
        "title": "Bootstrap Methods and their Application",
        "publisher": "Cambridge University Press", "year": "1997"}),
    "Phipson & Smyth 2010": _article(
        "phipson2010", "Phipson, Belinda and Smyth, Gordon K.",
        "Permutation p-values should never be zero: calculating exact p-values when permutations "
        "are randomly drawn", "Statistical Applications in Genetics and Molecular Biology", "9",
        "2010"),
    "Snoek et al. 2019": _article(
        "snoek2019", "Snoek, Lukas and Miletić, Steven and Scholte, H. Steven",
        "How to control for confounds in decoding analyses of neuroimaging data", "NeuroImage",
        "184", "2019"),
    "Haufe et al. 2014": _article(
        "haufe2014", "Haufe, Stefan and Meinecke, Frank and Görgen, Kai and Dähne, Sven and "
        "Haynes, John-Dylan and Blankertz, Benjamin and Bießmann, Felix",
        "On the interpretation of weight vectors of linear models in multivariate neuroimaging",
        "NeuroImage", "87", "2014"),
    "Pedregosa et al. 2011": _article(
        "pedregosa2011", "Pedregosa, Fabian and others",
        "Scikit-learn: machine learning in Python", "Journal of Machine Learning Research", "12",
        "2011"),
    "Abraham et al. 2014": _article(
        "abraham2014", "Abraham, Alexandre and others",
        "Machine learning for neuroimaging with scikit-learn", "Frontiers in Neuroinformatics",
        "8", "2014"),
}  # fmt: skip


def bibtex(text: str) -> str:
    """Entries of all that a text cites, and of this software, which every analysis cites.

    >>> bibtex("a relevance vector machine (Tipping 2001)").splitlines()[0]
    '@article{tipping2001,'
    """
    software = Reference(
        "software",
        "voxprior",
        {
            "author": "{The voxprior developers}",
            "title": "voxprior: decoding brain images from handfuls of scans",
            "version": version("voxprior"),
        },
    )
    cited = [entry for short, entry in REFERENCES.items() if short in text]
    return "\n\n".join(entry.bibtex() for entry in [*cited, software]) + "\n"
