"""The pages that workers see: templates and assets (`render`), and their texts in each language (`texts`)."""
