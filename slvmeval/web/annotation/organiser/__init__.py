"""The organiser's pages: ``app`` is the application; ``annotate status`` prints ``campaign_state`` too."""
