"""A simulator of differentially private online learning and bandits in JAX.

- ``Study`` plays learners and environments on a grid, ``simulate`` plays one game, and ``sweep``
  plays a game at many points. ``open`` reads a stored study or sweep.
- ``learners``, ``environments``, ``domains``, ``mechanisms`` and ``combinators`` make the parts of
  a game. ``Learner`` and ``Environment`` are the types of your own parts.
- ``privacy``, ``noise`` and ``audit`` calibrate, release and test. ``bounds`` has regret bounds.

``dir(dpjax)`` lists all names, and ``help(dpjax.Study)`` describes one of them.
"""

import lazy_loader

from dpjax._garbage import rarely_collected

# Each name of __init__.pyi is imported when it is first used, so ``dpjax --help`` loads no library.
_imported, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = rarely_collected()(_imported)
