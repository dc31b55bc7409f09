"""The gallery: a folder of pages that shows a release in a browser, without any server."""
