"""How far a suite's scores agree with people's ratings, with themselves, and under small changes."""
