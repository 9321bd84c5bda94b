"""Attacks on what dpjax reads, keeps and is told; counts are in docs/attacks.md."""
