/* SPDX-License-Identifier: Apache-2.0
 *
 * What this process may use of its machine, read from control groups as files show them.
 */
#include "base/platform.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

static char root[] = "/tmp/sparkring-groups-XXXXXX";

static void limit(const char *group, const char *text) {
  char path[256];
  snprintf(path, sizeof path, "%s%s/cpu.max", root, group);
  FILE *file = fopen(path, "w");
  CHECK(file != NULL);
  CHECK(fputs(text, file) >= 0);
  CHECK_INT(fclose(file), 0);
}

static void test_quotas(void) {
  char inner[256], outer[256], command[300];
  CHECK(mkdtemp(root) != NULL);
  snprintf(outer, sizeof outer, "%s/outer", root);
  snprintf(inner, sizeof inner, "%s/outer/inner", root);
  CHECK(mkdir(outer, 0700) == 0 && mkdir(inner, 0700) == 0);
  CHECK_INT(ring_platform_quota(root, "/outer/inner", 8), 8); /* no files */
  limit("/outer/inner", "max 100000\n");
  CHECK_INT(ring_platform_quota(root, "/outer/inner", 8), 8);
  limit("/outer/inner", "150000 100000\n");
  CHECK_INT(ring_platform_quota(root, "/outer/inner", 8), 2);
  CHECK_INT(ring_platform_quota(root, "/outer/inner", 1), 1);
  limit("/outer", "50000 100000\n");
  CHECK_INT(ring_platform_quota(root, "/outer/inner", 8), 1);
  CHECK_INT(ring_platform_quota(root, "/", 8), 8);
  limit("", "400000 100000\n"); /* in a container the root has limits, too */
  CHECK_INT(ring_platform_quota(root, "/", 8), 4);
  limit("", "900000000000 100000\n");
  CHECK_INT(ring_platform_quota(root, "/", 8), 8);
  limit("", "nonsense\n");
  CHECK_INT(ring_platform_quota(root, "/", 8), 8);
  snprintf(command, sizeof command, "rm -r %s", root);
  CHECK_INT(system(command), 0);
}

static void test_processors(void) {
  int processors = ring_platform_processors();
  CHECK(processors >= 1 && processors <= sysconf(_SC_NPROCESSORS_ONLN));
}

int main(void) {
  RUN(test_quotas);
  RUN(test_processors);
  return 0;
}
