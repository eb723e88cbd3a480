/* SPDX-License-Identifier: Apache-2.0 */
#include "base/library.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* POSIX converts a data pointer to a function pointer; ISO C does not. */
void ring_library_find(void *library, const char *name, void *function) {
  void *found = dlsym(library, name);
  memcpy(function, &found, sizeof found);
}

/* Copies the next name of a colon-separated list and moves *list past it. False after the last. */
static bool library_next(const char **list, char *name, size_t size) {
  *list += strspn(*list, ":");
  size_t length = strcspn(*list, ":");
  snprintf(name, size, "%.*s", (int)length, *list);
  *list += length;
  return length > 0;
}

void *ring_library_load(const char *names, char *problem, size_t size) {
  char name[4096], *why = problem;
  snprintf(problem, size, "no library was named");
  for (const char *sign = ""; library_next(&names, name, sizeof name); sign = "; ") {
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library != NULL) {
      problem[0] = '\0'; /* of the libraries before it */
      return library;
    }
    const char *error = dlerror();
    int written = snprintf(why, size, "%s%s", sign, error != NULL ? error : name);
    size_t taken = (size_t)written < size ? (size_t)written : size - 1;
    why += taken;
    size -= taken;
  }
  return NULL;
}

void ring_library_load_beside(const void *function, const char *name) {
  void *address;
  Dl_info info;
  char path[4096];
  memcpy(&address, function, sizeof address);
  if (dladdr(address, &info) == 0 || info.dli_fname == NULL) return;
  const char *slash = strrchr(info.dli_fname, '/');
  int length = slash != NULL ? (int)(slash + 1 - info.dli_fname) : 0;
  if (snprintf(path, sizeof path, "%.*s%s", length, info.dli_fname, name) < (int)sizeof path)
    dlopen(path, RTLD_NOW | RTLD_LOCAL);
}
