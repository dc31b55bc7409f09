"""Other people's meta-evaluation sets, and a user's own pairs, as pairs that evaluators are asked about."""
