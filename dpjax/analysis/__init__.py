"""What one does with results: statistics over trials, curves of bounds, tables and figures.

Users come in through ``dpjax.analysis.bounds`` and ``dpjax.analysis.statistics``.
"""
