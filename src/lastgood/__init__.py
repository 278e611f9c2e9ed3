"""lastgood gets autonomous coding work back to the last good point."""
