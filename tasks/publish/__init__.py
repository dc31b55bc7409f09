"""What leaves the store: releases, videos, exports, the gallery."""
