"""Attacks on inputs, stored results and settings; docs/attacks.md has the counts."""
