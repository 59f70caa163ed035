"""Identify, by its content, a file that was given as a table but is not one."""

from __future__ import annotations

import re

__all__ = ["format_of"]

AS_TEXT = "Export it as text, with tabs between cells (.tsv) or commas (.csv)"
AS_IMAGE = "Give images as images, and a text file (.tsv, .csv) as the table"
EXPANDED = "Expand it; a table that is compressed by gzip has a name that ends in .gz"
UTF8 = "Save it as UTF-8, with tabs between cells (.tsv) or commas (.csv)"
# Where what is searched for stands: the parts of a workbook are named in the first of a ZIP file.
FIRST = 2**16
# Patterns of the first bytes, the first that is found counts; what the file is, and what to do.
FORMATS: tuple[tuple[bytes, str, str], ...] = (
    (rb"PK\x03\x04.*?xl/", "an Excel workbook", AS_TEXT),
    (rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an Excel workbook, or of an old Office", AS_TEXT),
    (rb"PK\x03\x04.*?opendocument\.spreadsheet", "an OpenDocument spreadsheet", AS_TEXT),
    (rb"PK\x03\x04.*?word/", "a Word document", AS_TEXT),
    (rb"PK\x03\x04.*?\.npy", "a NumPy archive", AS_TEXT),
    (rb"PK\x03\x04|PK\x05\x06", "a ZIP archive", EXPANDED),
    (rb"\x1f\x8b", "compressed by gzip", EXPANDED),
    (rb"BZh[1-9]1AY|\xfd7zXZ\0|7z\xbc\xaf\x27\x1c|\x28\xb5\x2f\xfd", "compressed", EXPANDED),
    (rb".{344}(n\+1|ni1)\0|.{4}n(\+|i)2\0", "a NIfTI image", AS_IMAGE),
    (rb".{128}DICM", "a DICOM image", AS_IMAGE),
    (rb"\0\0\0\x01\0\0.{24}|<\?xml.{,200}GIFTI", "an image (MGH or GIFTI)", AS_IMAGE),
    (rb"\x89PNG|\xff\xd8\xff|GIF8|II\*\0|MM\0\*", "a picture", AS_TEXT),
    (rb"%PDF-", "a PDF document", AS_TEXT),
    (rb"\{\\rtf", "a rich text document", AS_TEXT),
    (rb"\x93NUMPY", "a NumPy array", AS_TEXT),
    (rb"MATLAB 5\.0", "a MATLAB file", AS_TEXT),
    (rb"\x89HDF\r\n\x1a\n", "an HDF5 file (a MATLAB file of 7.3 is one)", AS_TEXT),
    (rb"PAR1|ARROW1|FEA1", "a Parquet or Feather file", AS_TEXT),
    (rb"\$FL[23]", "an SPSS file", AS_TEXT),
    (rb"<stata_dta>|[\x71-\x73][\x01\x02]\x01\0", "a Stata file", AS_TEXT),
    (rb"\0{12}\xc2\xea\x81\x60", "a SAS file", AS_TEXT),
    (rb"RD[AX][23]\n", "a file of R", AS_TEXT),
    (rb"SQLite format 3\0", "an SQLite database", AS_TEXT),
    (rb"\x80[\x02-\x05](\x95|[\]}(c])", "a pickle", AS_TEXT),
    (rb"\x7fELF|MZ\x90", "a program", AS_TEXT),
    (rb"\xff\xfe|\xfe\xff", "text in UTF-16 ('Unicode text' of Excel)", UTF8),
    (rb"(\xef\xbb\xbf)?\s*(<!DOCTYPE|<html|<\?xml)", "a web page or XML", AS_TEXT),
    (rb'(\xef\xbb\xbf)?\s*\{\s*"[^"]*"\s*:', "JSON", "Give the table that it describes (.tsv)"),
)


def format_of(content: bytes) -> tuple[str, str] | None:
    r"""What a file is, and what to do, where its first bytes belong to a format other than a table.

    >>> format_of(b"%PDF-1.7\n")[0], format_of(b"participant_id\tage\n")
    ('a PDF document', None)
    """
    first = content[:FIRST]
    for pattern, what, remedy in FORMATS:
        if re.match(pattern, first, re.DOTALL | re.IGNORECASE):
            return what, remedy
    return None
