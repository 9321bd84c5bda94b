"""One file per paper. ``__all__`` is the list of papers that can be reproduced."""

from dpjax.experiments import tossou2017

__all__ = ["tossou2017"]
