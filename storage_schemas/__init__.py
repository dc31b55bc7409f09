"""The stored data. Imports no other package of ours.

Tables (row models and Arrow schemas): `source`, `analysis`, `pair`, `set_aside`, `judgements`, `votes`,
`suite_score`. The store: `store`, `commit`, `ids`, `rng`, `provenance`, `release`, `gc`,
`store_wait`, `away` (a file system that does not answer), `checksum_cache`. Formats: `frames` (Zarr),
`parquet`, `row_store` and `json_lines` (append-only files of several writers). Shared by all: `errors`, and
`model` (the base of frozen models, and the settings of a model server).
"""
