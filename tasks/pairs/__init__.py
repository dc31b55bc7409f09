"""From a source with frames and an analysis to verified pairs."""
