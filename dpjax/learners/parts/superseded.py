"""Deprecated keywords that are now fields of the domain; they warn until version 0.2."""

from dpjax.core import _check
from dpjax.domains import ball_losses


def of_domain(*names):
    """A decorator for factories that had some of the keywords losses, regularizer and lipschitz."""
    return _check.superseded(names, _into_domain, depth=3)


def _into_domain(old, given) -> tuple[dict, str]:
    domain, fields = given["domain"], {key: x for key, x in old.items() if x is not None}
    if "lipschitz" in fields:
        fields["losses"] = ball_losses(domain.dim, fields.pop("lipschitz"))
    spelling = ", ".join(f"{name}=..." for name in fields)
    return given | {"domain": domain._replace(**fields)}, f"domain._replace({spelling})"
