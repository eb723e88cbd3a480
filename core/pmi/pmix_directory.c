/* SPDX-License-Identifier: Apache-2.0 */
#include "pmi/pmix_directory.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>

bool ring_pmix_directory_make(char *path, size_t capacity) {
  const char *parent = getenv("TMPDIR");
  if (parent == NULL || parent[0] == '\0') parent = "/tmp";
  int length = snprintf(path, capacity, "%s/sparkring-pmix-XXXXXX", parent);
  errno = ENAMETOOLONG;
  return length > 0 && (size_t)length < capacity && mkdtemp(path) != NULL;
}

static int pmix_directory_remove_entry(const char *path, const struct stat *what, int kind,
                                       struct FTW *where) {
  (void)what, (void)kind, (void)where;
  remove(path);
  return 0;
}

void ring_pmix_directory_remove(const char *path) {
  nftw(path, pmix_directory_remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}
