"""Run the command ``slvmeval`` as ``python -m slvmeval``."""

from __future__ import annotations

import sys

from slvmeval.cli.main import main

sys.exit(main())
