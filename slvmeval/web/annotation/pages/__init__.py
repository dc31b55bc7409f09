"""The workers' pages: templates and assets (`render`), and their texts in each language (`texts`)."""
