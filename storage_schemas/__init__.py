"""What is stored: tables, frame arrays, ids, keyed randomness, atomic commits, the release reader."""
