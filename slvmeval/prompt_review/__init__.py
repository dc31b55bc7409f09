"""A local page on which a person corrects prompts beside the stills of their videos."""
