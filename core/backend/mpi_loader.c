/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/mpi_loader.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/call.h"

/* ---- Recognizing -------------------------------------------------------------------------- */

static const char *loader_base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash != NULL ? slash + 1 : path;
}

/* Sets loaded->path to the file that has a function. */
static void loader_locate(const void *function, ring_mpi_loaded *loaded) {
  Dl_info info;
  bool known = dladdr(function, &info) != 0 && info.dli_fname != NULL;
  snprintf(loaded->path, sizeof loaded->path, "%s", known ? info.dli_fname : "");
}

/* The interface of a library. The library reports what it is, before it is initialized, too. Two interfaces
 * differ in nothing but the name of the file. */
static const ring_mpi_driver *loader_driver(void *library, char text[RING_MPI_TEXT],
                                            ring_mpi_loaded *loaded) {
  int (*get_version)(char *, int *);
  void *found = dlsym(library, "MPI_Get_library_version");
  int length = 0;
  if (found == NULL) return NULL;
  memcpy(&get_version, &found, sizeof found);
  if (get_version(text, &length) != 0) return NULL;
  text[RING_MPI_TEXT - 1] = '\0';
  loader_locate(found, loaded);
  if (strncmp(loader_base_name(loaded->path), "libmpi_abi.", 11) == 0)
    return &ring_mpi_driver_standard;
  if (dlsym(library, "ompi_mpi_comm_world") != NULL) return &ring_mpi_driver_open_mpi;
  bool mpich = strstr(text, "MPICH") != NULL || strstr(text, "Intel(R) MPI") != NULL ||
               strstr(text, "MVAPICH") != NULL;
  return mpich ? &ring_mpi_driver_mpich : NULL;
}

/* Takes a library into use. False: *why is the reason why it is not. */
static bool loader_take(void *library, const char *name, ring_mpi_loaded *loaded, char *why,
                        size_t capacity) {
  char text[RING_MPI_TEXT] = "";
  const ring_mpi_driver *driver = loader_driver(library, text, loaded);
  const char *missing = driver != NULL ? driver->find(library) : NULL;
  if (driver != NULL && missing == NULL) {
    loaded->driver = driver;
    loaded->version = ring_digest_add(RING_DIGEST_EMPTY, text, strlen(text));
    return true;
  }
  if (missing != NULL)
    snprintf(why, capacity, "%s: it has no %s", name, missing);
  else
    snprintf(why, capacity, "%s: it is neither Open MPI, nor MPICH, nor of the MPI 5 ABI%s%.100s",
             name, text[0] != '\0' ? ", but " : "", text);
  dlclose(library);
  return false;
}

/* ---- A library that the process has loaded ------------------------------------------------ */

/* The path at the end of a line of /proc/self/maps, where its file may be of MPI; else NULL. */
static const char *loader_candidate(char *line) {
  char *path = strchr(line, '/');
  if (path == NULL) return NULL;
  path[strcspn(path, "\n")] = '\0';
  return strstr(loader_base_name(path), "mpi") != NULL ? path : NULL;
}

/* A handle of the first mapped file named after MPI that has, or depends on what has, MPI's functions; NULL
 * without one. The name of the library itself does not matter: mpi4py's module depends on it. */
static void *loader_find_mapped(void) {
  FILE *maps = fopen("/proc/self/maps", "r");
  char *line = NULL;
  size_t capacity = 0;
  void *library = NULL;
  while (maps != NULL && library == NULL && getline(&line, &capacity, maps) >= 0) {
    const char *path = loader_candidate(line);
    /* NOLINTNEXTLINE(clang-analyzer-optin.taint.GenericTaint): the process has loaded the file already */
    if (path != NULL) library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (library == NULL || dlsym(library, "MPI_Get_library_version") != NULL) continue;
    dlclose(library);
    library = NULL;
  }
  free(line);
  if (maps != NULL) fclose(maps);
  return library;
}

/* ---- Finding ------------------------------------------------------------------------------ */

/* Names that libraries have, those of Open MPI first and last. */
static const char *const loader_open_mpi_first[] = {
    "libmpi.so.40", "libmpi_abi.so.1", "libmpi_abi.so.0", "libmpi.so.12", "libmpich.so.12", NULL};
static const char *const loader_mpich_first[] = {
    "libmpi_abi.so.1", "libmpi_abi.so.0", "libmpi.so.12", "libmpich.so.12", "libmpi.so.40", NULL};

/* Launchers of Open MPI use PMIx, those of MPICH PMI. */
static const char *const *loader_names(void) {
  bool open_mpi = getenv("OMPI_COMM_WORLD_SIZE") != NULL ||
                  (getenv("PMIX_RANK") != NULL && getenv("PMI_RANK") == NULL);
  return open_mpi ? loader_open_mpi_first : loader_mpich_first;
}

/* Tries a name. Appends to *why what failed. */
static bool loader_try(const char *name, ring_mpi_loaded *loaded, char *why, size_t capacity) {
  size_t length = strlen(why);
  /* NOLINTNEXTLINE(clang-analyzer-optin.taint.GenericTaint): as LD_LIBRARY_PATH, it chooses what runs */
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (length > 0 && length + 2 < capacity) length = (size_t)(stpcpy(why + length, "; ") - why);
  if (library != NULL) return loader_take(library, name, loaded, why + length, capacity - length);
  const char *error = dlerror();
  snprintf(why + length, capacity - length, "%s", error != NULL ? error : name);
  return false;
}

bool ring_mpi_loader_find(ring_mpi_loaded *loaded, char *why, size_t capacity) {
  const char *named = getenv(RING_MPI_LIBRARY_VARIABLE);
  if (named != NULL) return loader_try(named, loaded, why, capacity);
  bool global = dlsym(RTLD_DEFAULT, "MPI_Get_library_version") != NULL;
  void *library = global ? dlopen(NULL, RTLD_NOW) : loader_find_mapped();
  if (library != NULL)
    return loader_take(library, "the MPI library that the process has loaded", loaded, why,
                       capacity);
  const char *const *names = loader_names();
  for (size_t i = 0; names[i] != NULL; i++)
    if (loader_try(names[i], loaded, why, capacity)) return true;
  return false;
}
