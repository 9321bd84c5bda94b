"""Each file rebuilds the figures and tables of one paper; authors of further papers come in.

``__all__`` is the registry that the command line reads.
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
