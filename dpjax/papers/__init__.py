"""One file per paper, and ``losses`` for a user's own table. ``__all__`` lists the papers."""

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
