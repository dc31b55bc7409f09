"""The gallery: a folder of pages that shows a release in a browser, without any server."""

from tasks.publish.gallery.write import write_gallery

__all__ = ["write_gallery"]
