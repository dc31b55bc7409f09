"""The demonstration: two freely licensed films, captions written for them, and the small U²-Net."""
