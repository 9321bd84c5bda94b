"""How a game is compiled and where it runs. A learner's author never needs to come in."""
