"""What one does with results: statistics over trials, curves of bounds, tables and figures."""
