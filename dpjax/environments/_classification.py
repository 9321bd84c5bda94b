"""Classification data as a contextual bandit: an arm for each class, bandit feedback."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import random as jr

from dpjax.core import Environment, Outcome, Policies, PyTree, _arrays
from dpjax.environments.contextual import TableTally

# Contexts longer than this quantile of the lengths are shortened to it. Then all are divided by it.
_QUANTILE = 0.9


def classification(features: PyTree, labels: Any) -> Environment:
    """A data set of labelled cases as a bandit: a round draws a case, an arm guesses its label.

    The loss is -1 if the guess is right and 1 otherwise, so (1 + loss) / 2 counts mistakes. Cases
    are drawn independently with replacement. A learner sees only whether its own guess was right.
    :func:`dpjax.learners.glm_sgd` needs ``loss_range=(-1, 1)``.

    Columns are standardised, a constant 1 is appended, and each case is scaled to a length of at
    most 1. This gives the context z of p + 1 numbers. The features of arm k are z in the k-th of K
    blocks and 0 elsewhere, so each label has its own coefficients: d = K (p + 1).

    Joint or local privacy protects one visit of a case, not a person whose case is drawn again.

    Args:
      features: (n, p) numbers, not traced, or a pandas table. Encode categories first, for example
        by ``pandas.get_dummies``.
      labels: (n,) classes of any kind. Arm k is the k-th of the K distinct ones in sorted order.

    Returns:
      An Environment for policies on features (K, d). Regret is against the policy that guesses by
      the least-squares fit of all losses of all cases. This regret may be negative.

    Raises:
      ValueError: a feature is not a number, missing or infinite; a label is missing; there is only
        one class; or the numbers of labels and cases differ.

    Examples:
      >>> environment = environments.classification([[0.0], [1.0], [3.0]], ["well", "ill", "ill"])
      >>> environment.action_set.dim  # two classes, one measurement and a constant
      4
      >>> state, outcome = environment.step((), jax.random.key(0), lambda x: 1)
      >>> x, losses = outcome.loss
      >>> x.shape, losses.shape
      ((2, 4), (2,))
    """
    cases = _arrays.real("features", features)
    if cases.ndim != 2 or 0 in cases.shape:
        raise ValueError(f"features must have shape (n, p), got {cases.shape}")
    labels = _arrays.column("labels", labels, len(cases))
    try:
        names, label = np.unique(labels, return_inverse=True)
    except (TypeError, ValueError):
        raise ValueError("labels must be of one kind, such as words or numbers") from None
    count, arms = len(cases), len(names)
    if arms < 2:
        raise ValueError(f"labels must have at least two classes, got {arms}")
    contexts = standardised(cases)
    losses = np.where(np.arange(arms) == label[:, None], -1.0, 1.0)
    fit = np.linalg.lstsq(contexts, losses, rcond=None)[0]
    del losses
    best = np.argmin(contexts @ fit, axis=1)
    compared = jnp.asarray(np.where(best == label, -1.0, 1.0), jnp.float32)
    rows, right = jnp.asarray(contexts, jnp.float32), jnp.asarray(label, jnp.int32)
    dim = arms * contexts.shape[1]

    def step(state, key, policy):
        case = jr.randint(key, (), 0, count)
        shown = jnp.kron(jnp.eye(arms, dtype=jnp.float32), rows[case][None])
        losses = jnp.where(jnp.arange(arms) == right[case], jnp.float32(-1.0), jnp.float32(1.0))
        suffered = losses[policy(shown)]
        return state, Outcome((shown, losses), TableTally(suffered, compared[case]))

    def regret(state, tally):
        return tally.suffered - tally.compared

    return Environment(lambda key: (), step, regret, Policies(dim))


def standardised(cases: np.ndarray) -> np.ndarray:
    """The contexts (n, p + 1) of cases (n, p): standardised columns and a constant.

    A column that is constant but for the rounding of its entries becomes 0.
    """
    contexts = np.ones((len(cases), cases.shape[1] + 1))
    moved = contexts[:, :-1]
    # This is exactly 0 in a constant column, unlike the difference to its mean.
    np.subtract(cases, cases[0], out=moved)
    deviations = moved.std(axis=0)
    # If each entry is a number x rounded twice, it is within 2^-52 |x| of x.
    constant = deviations <= np.finfo(np.float64).eps * np.abs(cases).max(axis=0)
    moved -= moved.mean(axis=0)
    moved /= np.where(constant, np.inf, deviations)
    lengths = np.linalg.norm(contexts, axis=1, keepdims=True)
    contexts /= np.maximum(lengths, np.quantile(lengths, _QUANTILE))
    return contexts
