"""The engine: compiles games and runs them on devices. Authors of learners do not need it."""
