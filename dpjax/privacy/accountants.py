"""By which theorem a mechanism of prefix sums is private, in the words of declarations."""

from dpjax.core import Mechanism, Sums


def sums_of(mechanism: Mechanism) -> Sums:
    """What a declaration says of sums by a mechanism."""
    l1, l2 = mechanism.sensitivity
    return Sums(mechanism.noise, "prefixes", mechanism.model, mechanism.horizon, (l1, l2))


def accountant_of(mechanism: Mechanism) -> str:
    """The theorem by which the noise of a mechanism hides one value."""
    name = f"{mechanism.noise.replace('_', ' ').capitalize()} mechanism"
    name = name.replace(" laplace", " Laplace").replace(" gaussian", " Gaussian")
    if mechanism.model == "local":
        return f"{name} on each item"
    if mechanism.model != "central":
        continuous = mechanism.noise in ("laplace", "gaussian")
        idealised = ", which idealises integer noise" if continuous else ""
        return f"{name} on the sum of each batch{idealised}"
    if mechanism.noise == "gaussian":
        return f"one {name} on the encoded stream, exact"
    return f"{name} on the encoded stream"
