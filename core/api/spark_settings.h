/* SPDX-License-Identifier: Apache-2.0
 *
 * What Spark's configuration says about encryption, to a worker that Spark has started. Nobody tells
 * a Python or R worker, but its ancestor does: Spark starts executors (standalone, YARN, Kubernetes)
 * with what they need to talk to the driver as options of the Java process, -Dspark.network...=...,
 * and a driver whose own threads run the tasks with --conf. So the command lines of this process's
 * ancestors are read in /proc, up to the first that runs a class of Spark.
 *
 * RING_SPARK_ENCRYPTION_MAP has those that ask for encrypted traffic. spark.io.encryption.enabled is
 * about files on disk, and spark.ssl.* of other kinds about web pages.
 */
#ifndef RING_API_SPARK_SETTINGS_H
#define RING_API_SPARK_SETTINGS_H

#include <stdbool.h>

/* Whether Spark started this process and encrypts its own traffic. False where there is no /proc. */
bool ring_spark_encrypts(void);

/* The same for a process, with another folder in the place of /proc. */
bool ring_spark_encrypts_for(const char *proc, long process);

#endif
