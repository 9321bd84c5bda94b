"""The noise of a learner's Gram matrix, passed as ``gram`` to :func:`dpjax.learners.linucb`.

A linear learner reads the past through sum v v', where v = (x, loss) has d + 1 entries. The first d
rows and columns of the sum are the Gram matrix of the features, and its last row is the sum of the
features times the losses. Matrices are packed as in :mod:`dpjax.maths.ellipsoids`. The last entry,
the sum of squared losses, is not used.

``__all__`` lists the noise laws. Each factory returns a :class:`Gram`, which contains the noise,
its shift of the eigenvalues, and the declared privacy.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import jax.numpy as jnp
import numpy as np

from dpjax import mechanisms, noise, privacy
from dpjax.core import Number, Privacy, PyTree, _check
from dpjax.learners.parts.gram_calibration import (
    Regularizer,
    gaussian_regularizer,
    levels_of,
    loss_regularizer,
    per_round_failure,
    real,
    wishart_freedom,
    wishart_regularizer,
    wishart_rho,
)
from dpjax.learners.parts.gram_streams import (
    GramStream,
    derived_gaussian,
    every_level,
    on_exact_sums,
    printed_gaussian,
)
from dpjax.learners.parts.prefix_sums import RELEASED
from dpjax.maths import ellipsoids
from dpjax.maths.clipping import into_range, within
from dpjax.privacy.printed import stated

__all__ = ["gaussian", "losses_only", "wishart"]


class Bounds(NamedTuple):
    """Bounds on each round. Rows outside them are clipped before they are summed."""

    features: PyTree  # L, the largest length of a feature vector
    loss: PyTree  # the largest absolute value of a loss
    parameter: PyTree  # S, an upper bound on |theta|

    @property
    def row(self):
        """L~, the largest length of a row v = (features, loss)."""
        return jnp.sqrt(real(self.features) ** 2 + real(self.loss) ** 2)

    def clip(self, seen):
        """The ``clip`` of a learner of rows (features (d,), loss ())."""
        return clip_row(seen, self.features, -self.loss, self.loss)


def clip_row(seen: PyTree, longest, low: Number, high: Number):
    """Scale features (d,) down to a length and clip a loss (); also return whether any changed."""
    features, loss = seen
    farthest, low, high = (jnp.asarray(x, jnp.float32) for x in (longest, low, high))
    # The squares of huge entries may overflow, so these are cut. NaN counts as the smallest value.
    finite = within(features, -1e3 * farthest, 1e3 * farthest)
    length = jnp.sqrt(ellipsoids.squared_length(finite))
    inside = finite * (farthest / jnp.maximum(length, farthest))
    # A row at the bound may differ by rounding, and is not counted as clipped.
    kept, outside = into_range(loss, low, high, 1e-5 * jnp.maximum(high, -low))
    too_long = (length > 1.00001 * farthest).astype(jnp.int32)
    return (inside, kept), jnp.maximum(too_long, outside)


class GramSums(NamedTuple):
    """Noisy Gram matrices of the rows of rounds 1 .. t, t = 0 .. T - 1, with their regularizers."""

    init: Callable  # key -> (state, release of no rows (packed,))
    step: Callable  # (state, key, features (d,), loss ()) -> (state, release of the rows so far)
    regularizer: Regularizer  # of round T
    now: Callable  # state -> Regularizer of the next round, in float32
    noisy: PyTree  # () bool, whether there is any noise
    events: PyTree  # () number of confidence bounds that may fail separately, from 1 to T
    privacy: Privacy


class Gram(NamedTuple):
    """A noise law for Gram matrices, which a learner calibrates to its sizes and its epsilon."""

    noise: Callable  # (horizon, dim, bounds, *, epsilon, delta, failure, ridge) -> GramSums
    floor: Number | None  # the smallest eigenvalue of noise and shift; None if derived
    failure: Number | None  # alpha, as in a learner; None for 1 / T


def _gram(noise, floor, failure, shifted=True) -> Gram:
    """Make a Gram with checked numbers."""
    gram = Gram(noise, floor, failure)
    check_numbers(gram)
    if floor is not None and not shifted:
        raise ValueError("floor must be left out if shifted is False")
    return gram


def check_numbers(gram: Gram) -> None:
    """Raise if a Gram has invalid numbers; traced ones are checked when the game runs."""
    _check.positive(**_check.specified(floor=gram.floor))
    _check.inside(0.0, 1.0, **_check.specified(failure=gram.failure))


def _gram_sums(dim, stream, regularizer_of, declared, events=1.0) -> GramSums:
    """The releases of a stream of packed rows, with each round's regularizer added.

    Args:
      dim: d.
      stream: a GramStream.
      regularizer_of: deviation of the noise -> Regularizer.
      declared: the Privacy.
      events: as in GramSums.
    """
    last = regularizer_of(stream.deviation)

    def now(state):
        current = last if stream.growing is None else regularizer_of(stream.growing(state))
        return Regularizer(*(jnp.asarray(x, jnp.float32) for x in current))

    def regularized(state, sums):
        return state, ellipsoids.add_to_diagonal(sums, dim + 1, now(state).offset)

    def init(key):
        return regularized(*stream.init(key))

    def step(state, key, features, loss):
        row = ellipsoids.outer(jnp.append(features, loss))
        return regularized(*stream.step(state, key, row))

    return GramSums(init, step, last, now, jnp.isfinite(stream.asked), events, declared)


def _declared(stream, bounds, calibration, unit="round") -> Privacy:
    """The declaration of Gram matrices.

    The model is that of the mechanism. A round's own arm depends on its features without noise, so
    "central" becomes "joint" here. In the other models the user chooses the arm from the public
    policy.
    """
    model = stream.privacy.model
    declared = stream.privacy._replace(
        unit=unit,
        loss_range=(-bounds.loss, bounds.loss),
        model="joint" if model == "central" else model,
        released="policies 1..T" if model == "central" else RELEASED[model],
    )
    return stated(declared, calibration, stream.asked)


def gaussian(
    *,
    mechanism: Callable = mechanisms.tree,
    shifted: bool = True,
    floor: Number | None = None,
    calibration: Literal["derived", "printed", "code"] = "derived",
    norm_bound: Literal["tight", "paper"] = "tight",
    failure: Number | None = None,
) -> Gram:
    """Symmetric Gaussian noise: variance s^2 off the diagonal, and 2 s^2 on it.

    A changed row v -> w moves v v' by at most sqrt(2) L~^2 in Frobenius norm. Entries off the
    diagonal appear twice, so a change D has the squared length |D|_F^2 / (2 s^2) in units of this
    noise, and the sensitivity is L~^2. If the diagonal also had variance s^2, the sensitivity would
    be sqrt(2) L~^2, so the larger variance is needed.

    Args:
      mechanism: a factory of ``dpjax.mechanisms``, for derived noise. Printed noise is that of a
        tree in which every release contains one node of each level. With ``per_item`` the model is
        local, and with ``partial(per_item, batch=B)`` shuffle.
      shifted: whether eigenvalues are shifted up by the norm bound Upsilon of the noise and by
        rho_min. False gives the ridge and the confidence radius of OFUL: an ablation without a
        regret bound, in the style of Mishra & Thakurta 2015.
      floor: rho_min > 0, the smallest eigenvalue of noise and shift; by default Upsilon, and at
        least the ridge of the learner. A floor replaces the ridge.
      calibration: "derived", "printed" (the paper's) or "code" (the authors' program).
      norm_bound: "tight" or "paper"; see
        :func:`dpjax.learners.parts.gram_calibration.gaussian_norm`.
      failure: alpha, the probability that some confidence bound fails; by default 1 / T.

    Examples:
      >>> local = gram.gaussian(mechanism=mechanisms.per_item)
      >>> learners.linucb(1000, 3, epsilon=1.0, delta=1e-6, gram=local).privacy.model
      'local'
    """
    _check.one_of("derived", "printed", "code", calibration=calibration)
    _check.one_of("tight", "paper", norm_bound=norm_bound)
    _check.factory("mechanisms.tree", mechanism=mechanism)
    if mechanism is not mechanisms.tree and calibration != "derived":
        raise ValueError("mechanism: only derived Gaussian noise accepts one")

    def noise(horizon, dim, bounds, *, epsilon, delta, failure, ridge=1.0) -> GramSums:
        rows, columns = ellipsoids.indices(dim + 1)
        weights = np.where(rows == columns, np.sqrt(2.0), 1.0)
        if calibration == "derived":
            stream = derived_gaussian(horizon, weights, bounds.row**2, epsilon, delta, mechanism)
        else:
            stream = printed_gaussian(horizon, weights, bounds, epsilon, delta, calibration)

        def regularizer_of(deviation):
            if not shifted:
                return Regularizer(ridge, ridge, ridge, 0.0)
            per_round = per_round_failure(horizon, failure, calibration)
            return gaussian_regularizer(
                deviation, dim, per_round, norm_bound=norm_bound, floor=floor, ridge=ridge
            )

        # The confidence bound of OFUL holds for all rounds simultaneously only if the regularizer
        # is the same in all of them.
        events = 1.0 if stream.growing is None else float(horizon)
        declared = _declared(stream, bounds, calibration)
        return _gram_sums(dim, stream, regularizer_of, declared, events)

    return _gram(noise, floor, failure, shifted)


def losses_only(
    *,
    mechanism: Callable = mechanisms.tree,
    floor: Number | None = None,
    failure: Number | None = None,
) -> Gram:
    """Gaussian noise on the last row only: an ablation with public features.

    A changed loss moves the last row by at most twice L times the bound on losses. The calibration
    is the derived one.

    Args:
      mechanism: a factory of ``dpjax.mechanisms`` for the central model.
      floor, failure: as in :func:`gaussian`.

    Examples:
      >>> public = gram.losses_only()
      >>> learners.linucb(1000, 3, epsilon=1.0, delta=1e-6, gram=public).privacy.unit
      'entry'
    """
    _check.factory("mechanisms.tree", mechanism=mechanism)

    def noise(horizon, dim, bounds, *, epsilon, delta, failure, ridge=1.0) -> GramSums:
        rows, columns = ellipsoids.indices(dim + 1)
        weights = np.where((rows == dim) & (columns < dim), 1.0, 0.0)
        change = 2.0 * bounds.features * bounds.loss
        stream = derived_gaussian(horizon, weights, change, epsilon, delta, mechanism)

        def regularizer_of(deviation):
            per_round = per_round_failure(horizon, failure, "derived")
            return loss_regularizer(
                deviation, dim, per_round, bounds.parameter, floor=floor, ridge=ridge
            )

        declared = _declared(stream, bounds, "derived", unit="entry")
        return _gram_sums(dim, stream, regularizer_of, declared)

    return _gram(noise, floor, failure)


def wishart(
    *,
    shifted: bool = True,
    floor: Number | None = None,
    calibration: Literal["derived", "printed", "code"] = "derived",
    failure: Number | None = None,
) -> Gram:
    """Centred Wishart noise W_p(L~^2 I, k), p = d + 1, in each node of a tree, with its shift.

    It relies on Sheffet 2015, Theorem 4.1, in all calibrations
    (:func:`dpjax.learners.parts.gram_calibration.wishart_freedom`).

    Args:
      shifted: whether eigenvalues are shifted down as far as rho_min allows. False gives plain
        Wishart noise.
      floor: rho_min > 0; by default 4 L~^2 sqrt(m k) D, and at least the ridge of the learner.
      calibration, failure: as in :func:`gaussian`.

    Examples:
      >>> learner = learners.linucb(1000, 3, epsilon=1.0, delta=1e-6, gram=gram.wishart())
      >>> learner.privacy.model
      'joint'
    """
    _check.one_of("derived", "printed", "code", calibration=calibration)

    def noise_of(horizon, dim, bounds, *, epsilon, delta, failure, ridge=1.0) -> GramSums:
        lower, left = ellipsoids.indices(dim + 1)
        epsilon, levels = real(epsilon), levels_of(horizon, calibration)
        finite = jnp.isfinite(epsilon)
        scale = jnp.where(finite, bounds.row**2, 0.0)
        k = wishart_freedom(dim + 1, levels, jnp.where(finite, epsilon, 1.0), delta, calibration)
        shown = epsilon
        if calibration != "derived":
            # A row is in one node of each level that holds data.
            by_node = wishart_rho(dim + 1, levels_of(horizon, "derived"), k, delta)
            shown = privacy.zcdp_epsilon(by_node, 0.5 * real(delta))
            shown = jnp.where(finite, shown, jnp.inf)

        def draw(key):
            square = jnp.zeros((dim + 1, dim + 1), jnp.float32)
            return noise.wishart(key, square, scale, k)[lower, left]

        accountant = "Sheffet 2015, Theorem 4.1, a node; composed by approximate zCDP"
        declared = Privacy(epsilon=shown, delta=delta, accountant=accountant)
        # Audits do not model the law of its releases.
        init, step = on_exact_sums(*every_level(levels, len(lower), draw))
        stream = GramStream(init, step, scale, None, epsilon, declared)

        def regularizer_of(scale):
            per_round = per_round_failure(horizon, failure, calibration)
            return wishart_regularizer(
                scale, levels * k, dim, per_round, shifted=shifted, floor=floor, ridge=ridge
            )

        return _gram_sums(dim, stream, regularizer_of, _declared(stream, bounds, calibration))

    return _gram(noise_of, floor, failure, shifted)
