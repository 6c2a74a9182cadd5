"""How Sphinx makes a website of these pages: `sphinx-build -W docs site`."""

project = "pytest-jitcheck"
extensions = ["myst_parser"]
html_theme = "furo"
# Links such as errors.md#boolean-mask, which are those of the failure texts too.
myst_heading_anchors = 2
