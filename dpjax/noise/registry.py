"""The laws of noise by name."""

from dpjax.noise._binomial import binomial
from dpjax.noise._discrete_gaussian import discrete_gaussian
from dpjax.noise._discrete_laplace import discrete_laplace
from dpjax.noise._gaussian import gaussian
from dpjax.noise._laplace import laplace
from dpjax.noise._logistic import logistic
from dpjax.noise._skellam import skellam
from dpjax.noise.law import Law

_OF_DPJAX = (laplace, gaussian, discrete_laplace, discrete_gaussian, skellam, binomial, logistic)
LAWS = {law.name: law for law in _OF_DPJAX}
LawName = str | Law  # a name in LAWS, or a law itself


def name_of(noise: LawName) -> str:
    """The name of a law. A law that is given as a record replaces one of its name in LAWS.

    Raises:
      ValueError: the record has the name of a law of dpjax.

    Examples:
      >>> noise.name_of("laplace"), noise.name_of(noise.skellam)
      ('laplace', 'skellam')
    """
    if not isinstance(noise, Law):
        return noise
    if any(noise.name == law.name and noise is not law for law in _OF_DPJAX):
        raise ValueError(f"noise: {noise.name} is a law of dpjax; give yours another name")
    LAWS[noise.name] = noise
    return noise.name
