"""What leaves the store: releases, videos, exports, submissions and the gallery."""
