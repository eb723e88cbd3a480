# SPDX-License-Identifier: Apache-2.0
"""Columns of tables as arrays: of Arrow, of pandas, and of Spark's rows.

::

    source            the rows of a Spark task or a table, as chunks
      arrow, frame, row   its kinds, each only where its library is installed
        number              columns as numbers, and nulls
          vector              vectors of Spark ML
"""
