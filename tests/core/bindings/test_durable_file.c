/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that get their name when they are whole.
 */
#include "bindings/durable_file.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

static int write_two(const char *folder, char *first, char *second) {
  const struct iovec parts[] = {{first, strlen(first)}, {second, strlen(second)}};
  return ring_durable_file_write(folder, "name", parts, 2);
}

static void check_content(const char *path, const char *expected) {
  char text[64] = "";
  FILE *file = fopen(path, "rb");
  CHECK(file != NULL);
  CHECK_INT(fread(text, 1, sizeof text - 1, file), strlen(expected));
  fclose(file);
  CHECK(strcmp(text, expected) == 0);
}

static void test_write(void) {
  char folder[] = "/tmp/test_durable_file_XXXXXX", path[128], begun[128];
  CHECK(mkdtemp(folder) != NULL);
  snprintf(path, sizeof path, "%s/name", folder);
  snprintf(begun, sizeof begun, "%s/new-name", folder);
  CHECK_INT(write_two(folder, "a state", " and more"), 0);
  check_content(path, "a state and more");
  CHECK_INT(write_two(folder, "", "another"), 0);
  check_content(path, "another");
  CHECK(access(begun, F_OK) != 0);
  CHECK_INT(unlink(path), 0);
  CHECK_INT(mkdir(path, 0700), 0); /* in the way of the new name */
  CHECK_INT(write_two(folder, "a", "b"), EISDIR);
  CHECK(access(begun, F_OK) != 0);
  CHECK_INT(rmdir(path), 0);
  CHECK_INT(rmdir(folder), 0);
  CHECK_INT(write_two(folder, "a", "b"), ENOENT);
}

static void test_full_disk(void) {
  if (access("/dev/full", W_OK) != 0) return;
  char folder[] = "/tmp/test_durable_file_XXXXXX", begun[128];
  CHECK(mkdtemp(folder) != NULL);
  snprintf(begun, sizeof begun, "%s/new-name", folder);
  CHECK_INT(symlink("/dev/full", begun), 0);
  CHECK_INT(write_two(folder, "a", "b"), ENOSPC);
  CHECK(access(begun, F_OK) != 0);
  CHECK_INT(rmdir(folder), 0);
}

int main(void) {
  RUN(test_write);
  RUN(test_full_disk);
  return 0;
}
