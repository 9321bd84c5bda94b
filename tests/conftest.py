"""Strict JAX for every test: implicit rank and dtype promotion raise."""

import jax

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")
