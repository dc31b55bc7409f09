"""One page about a store, for its owner: releases, builds, pages, judges, campaigns, suites, disk."""
