"""Web pages: `annotation` for annotators and organisers, `prompt_review` for correcting prompts."""
