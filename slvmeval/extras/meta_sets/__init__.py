"""Commands on sets of pairs, and the proxy study."""
