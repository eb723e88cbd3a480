# SPDX-License-Identifier: Apache-2.0
"""Sphinx's settings for the site. scripts/docs passes the folders of what was generated."""

import os
from importlib.metadata import version as version_of

from sphinx.ext.autodoc.mock import _MockObject

project = "sparkring"
author = "the sparkring authors"
copyright = author  # noqa: A001 (Sphinx's name)
release = version = version_of("sparkring")

extensions = [
    "breathe",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["README.md", "tools"]

# ---- Look --------------------------------------------------------------------------------------

html_theme = "furo"
html_title = "sparkring"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_favicon = html_logo = "static/logo.svg"
html_theme_options = {"sidebar_hide_name": False}
copybutton_selector = "[class*=highlight-]:not(.highlight-none, .highlight-text) > .highlight > pre"
html_copy_source = False
html_show_sphinx = False
highlight_language = "none"  # of blocks that name none: output
pygments_style = "friendly"
pygments_dark_style = "monokai"

# ---- Markdown ----------------------------------------------------------------------------------

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "tasklist"]
myst_heading_anchors = 4

# ---- Python --------------------------------------------------------------------------------------

# `name` in a docstring is a link where there is such a page, and code elsewhere.
default_role = "py:obj"
add_module_names = False
autodoc_member_order = "groupwise"
autodoc_mock_imports = ["jax", "keras", "tensorflow", "torch"]
_MockObject.__bool__ = lambda self: True  # torch.distributed.is_available()
autodoc_typehints = "none"  # the docstrings have the types
numpydoc_class_members_toctree = False
numpydoc_show_class_members = False
toc_object_entries_show_parents = "hide"

# ---- C -------------------------------------------------------------------------------------------

breathe_projects = {"sparkring": os.environ["SITE_DOXYGEN"]}
breathe_default_project = "sparkring"
breathe_default_members = ("members", "undoc-members")
breathe_domain_by_extension = {"h": "c"}
suppress_warnings = ["duplicate_declaration.c"]  # typedef struct ring_error {...} ring_error


def drop_help_list(app, what, name, obj, options, lines):
    """Drop "Where to go on" of a package, which is for help(): the site has lists of its own."""
    if what == "module" and "Where to go on" in lines:
        first = lines.index("Where to go on")
        rest = lines[first + 2 :]
        del lines[first : first + 2 + rest.index("Examples")]


def setup(app):
    """Connect what changes docstrings, before numpydoc."""
    app.connect("autodoc-process-docstring", drop_help_list, priority=100)
