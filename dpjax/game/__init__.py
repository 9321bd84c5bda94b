"""One game: a learner against an environment, by rounds or by batches.

:mod:`dpjax.game.rounds` has the protocol of a round. All that plays, records or replays a game
calls it.
"""
