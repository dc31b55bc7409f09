"""Caption analysis: what each clip's caption names, by rules or by a language model."""
