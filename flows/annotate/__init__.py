"""People look at pairs, as far as it is due. Others use `options` and `run`."""
