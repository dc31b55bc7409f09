"""``python -m slvmeval`` is the command ``slvmeval``."""

from __future__ import annotations

import sys

from slvmeval.cli import main

sys.exit(main())
