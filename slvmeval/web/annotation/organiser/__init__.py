"""The organiser's pages: ``app`` is the application; ``annotate status`` also prints ``campaign_state``."""
