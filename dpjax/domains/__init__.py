"""Decision sets, the losses that go with them, and regularizers. Authors of sets come in.

A learner plays points x of a :class:`Domain` in R^d against loss vectors l of a :class:`LossSet`
and suffers <l, x>. A set is described by what algorithms need of it: to minimize a linear function,
to project, and to minimize a regularized linear function.
"""

from dpjax.domains.balls import box, k_sparse, k_support, l1_ball, lp_ball
from dpjax.domains.base import (
    Domain,
    LossSet,
    Regularizer,
    check_domain,
    conditional_gradient_step,
    fitting,
    shrunk,
    support_function,
)
from dpjax.domains.from_minimizer import from_minimizer
from dpjax.domains.loss_sets import ball_losses, box_losses, clipped, l1_losses, sensitivity
from dpjax.domains.matrices import (
    fantope,
    gram_losses,
    nuclear_ball,
    spectrahedron,
    von_neumann_entropy,
)
from dpjax.domains.matroids import capped_simplex, forests, partition_matroid, uniform_matroid
from dpjax.domains.paths import paths
from dpjax.domains.polytopes import polytope
from dpjax.domains.regularizers import negative_entropy, numerical_regularizer, squared_norm
from dpjax.domains.standard import ball, cube, simplex
from dpjax.domains.submodular import (
    base_polytope,
    concave_of_weights,
    coverage,
    directed_cut,
    permutahedron,
)

__all__ = [
    "Domain",
    "LossSet",
    "Regularizer",
    "ball",
    "ball_losses",
    "base_polytope",
    "box",
    "box_losses",
    "capped_simplex",
    "check_domain",
    "clipped",
    "concave_of_weights",
    "conditional_gradient_step",
    "coverage",
    "cube",
    "directed_cut",
    "fantope",
    "fitting",
    "forests",
    "from_minimizer",
    "gram_losses",
    "k_sparse",
    "k_support",
    "l1_ball",
    "l1_losses",
    "lp_ball",
    "negative_entropy",
    "nuclear_ball",
    "numerical_regularizer",
    "partition_matroid",
    "paths",
    "permutahedron",
    "polytope",
    "sensitivity",
    "shrunk",
    "simplex",
    "spectrahedron",
    "squared_norm",
    "support_function",
    "uniform_matroid",
    "von_neumann_entropy",
]
