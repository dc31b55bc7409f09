"""The pages on which a person corrects and accepts drafts of prompts; ``app`` is the application."""
