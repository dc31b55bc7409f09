"""The organiser's pages: how far a campaign is, how its workers do, and what is decided about them."""
