"""Web pages: `annotation` for people who look at pairs, `prompt_review` for one who corrects prompts."""
