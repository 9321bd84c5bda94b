"""One file per paper, and ``losses`` for a user's own table. ``__all__`` lists the papers."""

from dpjax.experiments import tossou2017

__all__ = ["tossou2017"]
