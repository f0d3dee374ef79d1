"""Configuration of the documentation site, which `./dev docs` builds.

The build needs no network: fonts, scripts and the search index are files of the site, and no
inventory of another project is read.
"""

from __future__ import annotations

import sys
from pathlib import Path

import logstate

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "logstate"
author = "the authors of logstate"
project_copyright = "the authors of logstate, Apache-2.0"
version = release = logstate.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "docstring_sections",
    "llms_text",
]
exclude_patterns = ["extensions", "images"]
html_theme = "furo"
html_title = f"logstate {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_copy_source = True
templates_path: list[str] = []

# Headings are the targets of links, with the anchors that GitHub gives them.
myst_heading_anchors = 4
myst_enable_extensions = ["deflist", "fieldlist"]

# The extras of heavy libraries are not needed to build the pages.
autodoc_mock_imports = ["pandas", "polars", "py4j", "pyarrow", "pyspark"]
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "inherited-members": True}
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
add_module_names = False
toc_object_entries_show_parents = "hide"
napoleon_numpy_docstring = False
napoleon_custom_sections = [("Semantics", "params_style")]
