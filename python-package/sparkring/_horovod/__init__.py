# SPDX-License-Identifier: Apache-2.0
"""Horovod's API without a framework: the context, the operations on arrays, and objects.

`sparkring.torch`, `sparkring.keras` and `sparkring.tensorflow` stand on it::

    names                  the names that the front ends share
    elastic                states, and what goes on after a failure
    builds                 how Horovod was built
    host                   reductions for compiled programs, and compressors
    operations, objects    submissions to the reducer of a process set
      ranks, timeline        numbers of this process; a recording of calls
      context                init, shutdown, process sets
        pending                operations in flight, and their handles
        reduction              how arrays are combined: the arguments of a reduction
          process_sets           groups of ranks
            group                  a communicator, a reducer and the names of operations
              settings               the variables HOROVOD_*
    arguments              checks of types
    ops, adasum, errors    constants, a sum of gradients, HorovodInternalError
"""
