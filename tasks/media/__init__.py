"""Video files: probing them, choosing and decoding frames, encoding, planes."""
