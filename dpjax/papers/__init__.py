"""A file for each paper whose figures and tables are rebuilt. Whoever adds one comes in.

``__all__`` is the registry: the command line goes by it.
"""

from dpjax.papers import (
    agarwal2017,
    agarwal2017_bandits,
    ene2021,
    hanna2022,
    sajed2019,
    shariff2018,
    tossou2017,
)

__all__ = [
    "agarwal2017",
    "agarwal2017_bandits",
    "ene2021",
    "hanna2022",
    "sajed2019",
    "shariff2018",
    "tossou2017",
]
