/* SPDX-License-Identifier: Apache-2.0 */
#include "api/spark_settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "sparkring.h"

#define SPARK_ANCESTORS 16
#define SPARK_PATH 256

#define SPARK_NAME(name) name,
static const char *const spark_asks[] = {RING_SPARK_ENCRYPTION_MAP(SPARK_NAME)};

/* "-Dspark.network.crypto.enabled=true", or without -D, as behind --conf. */
static bool spark_asks_in(const char *argument) {
  if (strncmp(argument, "-D", 2) == 0) argument += 2;
  for (size_t i = 0; i < sizeof spark_asks / sizeof *spark_asks; i++) {
    size_t length = strlen(spark_asks[i]);
    if (strncmp(argument, spark_asks[i], length) == 0 && argument[length] == '=')
      return strcasecmp(argument + length + 1, "true") == 0;
  }
  return false;
}

/* Reads a command line; false when no class of Spark is in it. */
static bool spark_read_command(const char *proc, long process, bool *asks) {
  char path[SPARK_PATH], *argument = NULL;
  size_t capacity = 0;
  bool spark = false;
  *asks = false;
  snprintf(path, sizeof path, "%s/%ld/cmdline", proc, process);
  FILE *file = fopen(path, "re");
  if (file == NULL) return false;
  while (getdelim(&argument, &capacity, '\0', file) > 0) {
    spark = spark || strncmp(argument, "org.apache.spark.", 17) == 0;
    *asks = *asks || spark_asks_in(argument);
  }
  free(argument);
  fclose(file);
  return spark;
}

/* The parent of a process, or 0. Its state and its parent stand behind its name, which may hold
 * anything. */
static long spark_parent(const char *proc, long process) {
  char path[SPARK_PATH], line[1024];
  long parent = 0;
  snprintf(path, sizeof path, "%s/%ld/stat", proc, process);
  FILE *file = fopen(path, "re");
  if (file == NULL) return 0;
  size_t length = fread(line, 1, sizeof line - 1, file);
  fclose(file);
  line[length] = '\0';
  const char *end = strrchr(line, ')');
  return end != NULL && sscanf(end, ") %*c %ld", &parent) == 1 ? parent : 0;
}

bool ring_spark_encrypts_for(const char *proc, long process) {
  bool asks = false;
  for (int i = 0; i < SPARK_ANCESTORS && process > 0; i++) {
    if (spark_read_command(proc, process, &asks)) return asks;
    process = spark_parent(proc, process);
  }
  return false;
}

bool ring_spark_encrypts(void) {
  return ring_spark_encrypts_for("/proc", (long)getpid());
}
