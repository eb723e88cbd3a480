/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether Spark asks for encryption, as the command lines of a worker's ancestors tell: in a folder
 * that looks like /proc. That real Spark's do is for tests/spark.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "api/spark_settings.h"
#include "check.h"

static char proc[] = "/tmp/sparkring-proc-XXXXXX";

static void write_file(long process, const char *name, const char *bytes, size_t length) {
  char path[128];
  snprintf(path, sizeof path, "%s/%ld", proc, process);
  mkdir(path, 0700);
  snprintf(path, sizeof path, "%s/%ld/%s", proc, process, name);
  FILE *file = fopen(path, "w");
  CHECK(file != NULL && fwrite(bytes, 1, length, file) == length && fclose(file) == 0);
}

/* A process; `command` has spaces between its arguments. */
static void add_process(long process, long parent, const char *command) {
  char line[512];
  int length = snprintf(line, sizeof line, "%ld (a) b (%ld) S %ld 0 0", process, process, parent);
  write_file(process, "stat", line, (size_t)length);
  length = snprintf(line, sizeof line, "%s", command);
  for (int i = 0; i < length; i++)
    if (line[i] == ' ') line[i] = '\0';
  write_file(process, "cmdline", line, (size_t)length + (length > 0));
}

/* Of a worker (12) of a daemon (11) of a Java process (10). */
static bool asks(const char *command) {
  add_process(12, 11, "python3 -m pyspark.daemon");
  add_process(11, 10, "python3 -m pyspark.daemon");
  add_process(10, 1, command);
  add_process(1, 0, "init -Dspark.network.crypto.enabled=true");
  return ring_spark_encrypts_for(proc, 12);
}

#define EXECUTOR " org.apache.spark.executor.CoarseGrainedExecutorBackend --cores 2"

static void test_who_asks(void) {
  CHECK(asks("java -cp x -Dspark.network.crypto.enabled=true" EXECUTOR));
  CHECK(asks("java -Dspark.authenticate.enableSaslEncryption=TRUE" EXECUTOR));
  CHECK(asks("java -Dspark.network.crypto.enabled=false -Dspark.ssl.rpc.enabled=true" EXECUTOR));
  CHECK(asks("java org.apache.spark.deploy.SparkSubmit --conf spark.network.crypto.enabled=true"));
}

static void test_who_does_not(void) {
  CHECK(!asks("java" EXECUTOR));
  CHECK(!asks("java -Dspark.network.crypto.enabled=false" EXECUTOR));
  CHECK(!asks("java -Dspark.network.crypto.enabled=" EXECUTOR));
  CHECK(!asks("java -Dspark.network.crypto.enabledx=true" EXECUTOR));
  CHECK(!asks("java -Dspark.io.encryption.enabled=true -Dspark.ssl.ui.enabled=true" EXECUTOR));
  CHECK(!asks("java -Dspark.network.crypto.enabled=true com.example.Other"));
  CHECK(!asks(""));
}

static void test_what_cannot_be_read(void) {
  CHECK(!ring_spark_encrypts_for(proc, 99));
  CHECK(!ring_spark_encrypts_for("/nowhere", 1));
  write_file(12, "stat", "", 0);
  CHECK(!ring_spark_encrypts_for(proc, 12));
  add_process(12, 12, "its own parent");
  CHECK(!ring_spark_encrypts_for(proc, 12));
  CHECK(!ring_spark_encrypts());
}

static void remove_all(void) {
  char command[64];
  snprintf(command, sizeof command, "rm -r %s", proc);
  CHECK_INT(system(command), 0);
}

int main(void) {
  CHECK(mkdtemp(proc) != NULL);
  RUN(test_who_asks);
  RUN(test_who_does_not);
  RUN(test_what_cannot_be_read);
  remove_all();
  return 0;
}
