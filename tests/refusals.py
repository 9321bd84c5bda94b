"""Wrong arguments: each call is refused with a message."""

import pytest


def refuses(message, function, *calls, **keywords):
    """Each tuple of arguments is refused by an error whose text has this pattern."""
    for arguments in calls:
        with pytest.raises((TypeError, ValueError), match=message):
            function(*arguments, **keywords)
