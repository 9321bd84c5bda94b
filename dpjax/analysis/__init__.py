"""What one does with results: statistics over trials, curves of bounds, tables and figures.

Users come in by way of ``dpjax.analysis.bounds`` and ``dpjax.analysis.statistics``.
"""
