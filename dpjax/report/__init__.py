"""Estimates of labelled arrays, and the tables, figures, pages and files that show them."""
