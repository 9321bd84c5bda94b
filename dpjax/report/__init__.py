"""Estimates of labelled arrays, and the tables, figures, pages and files that show them."""

import lazy_loader

__all__ = ["accessor", "arrays", "choice", "estimates", "latex", "trends"]
# The modules are imported on first use, because their libraries take a second to load.
__getattr__, __dir__, _ = lazy_loader.attach(__name__, __all__)
