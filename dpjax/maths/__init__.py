"""Mathematics that does not depend on learners: sums, barriers, designs, divergences, laws."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach(__name__, ["designs", "divergences"])
