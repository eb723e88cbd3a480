/* SPDX-License-Identifier: Apache-2.0 */
#include "leaks.h"

#include <fcntl.h>

#include "check.h"

int count_descriptors(void) {
  int count = 0;
  for (int fd = 0; fd < 4096; fd++) count += fcntl(fd, F_GETFD) >= 0;
  return count;
}

bool arena_is_mapped(void) {
  char line[512];
  bool found = false;
  FILE *maps = fopen("/proc/self/maps", "r");
  CHECK(maps != NULL);
  while (fgets(line, sizeof line, maps) != NULL) found |= strstr(line, "memfd:sparkring") != NULL;
  fclose(maps);
  return found;
}
