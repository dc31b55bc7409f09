"""Web pages: `annotation` for annotators and organisers, `store_page` for a store."""
