"""Prompts made from videos: `review` has the pages on which a person corrects drafts."""
