# SPDX-License-Identifier: Apache-2.0
"""The loader of Parquet files: what `sparkring.data.parquet` returns.

- file_system, listing, delta, iceberg, spark_table: which files there are
- footer, manifest: which row groups there are, known to rank 0 and broadcast
- order: the rows of an epoch in a sequence that does not depend on the number of ranks
- deal: which positions of the sequence each rank takes, in how many steps; state: how far it got
- row_groups, cache, columns, blocks: rows of row groups as arrays, in their order
- reader: the thread that reads ahead
- frameworks: arrays as tensors
- discovery: the manifest and the columns, on all ranks
- loader: batches; options: the arguments of `parquet`
"""
