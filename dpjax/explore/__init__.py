"""An interactive page of a study, from its store or its tables. ``dpjax explore`` comes in."""
