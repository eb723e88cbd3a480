/* SPDX-License-Identifier: Apache-2.0
 *
 * The unique id by which the ranks of an NCCL communicator find each other: rank 0 asks the library
 * for it, and the letter with it goes to all, or the one with why there is none. The library is
 * loaded at run time, because few hosts have it, and stays: it has started a thread that answers the
 * ranks. Its interface here is that of nccl_bootstrap.h since version 2.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "api/comm_state.h"
#include "base/error.h"
#include "sparkring.h"

typedef struct nccl_letter {
  unsigned char id[RING_NCCL_ID_BYTES];
  char problem[512]; /* "" when there is none */
} nccl_letter;

/* An ncclUniqueId is an array of chars, an ncclResult_t an enumeration with 0 for success. */
typedef int (*nccl_get_unique_id)(unsigned char *id);
typedef const char *(*nccl_get_error_string)(int result);

/* POSIX lets a pointer to data be one to a function, which ISO C does not know. */
static void nccl_find(void *library, const char *name, void *function) {
  void *found = dlsym(library, name);
  memcpy(function, &found, sizeof found);
}

/* The next name of a list with colons, at `*list`, which moves on. False after the last. */
static bool nccl_next(const char **list, char *name, size_t size) {
  *list += strspn(*list, ":");
  size_t length = strcspn(*list, ":");
  snprintf(name, size, "%.*s", (int)length, *list);
  *list += length;
  return length > 0;
}

/* The first that can be loaded; else NULL, and the letter says what was wrong with each. */
static void *nccl_load(const char *libraries, nccl_letter *letter) {
  char name[4096], *why = letter->problem;
  snprintf(why, sizeof letter->problem, "no library was named");
  size_t capacity = sizeof letter->problem;
  const char *rest = libraries;
  for (const char *sign = ""; nccl_next(&rest, name, sizeof name); sign = "; ") {
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library != NULL) return library;
    const char *error = dlerror();
    int written = snprintf(why, capacity, "%s%s", sign, error != NULL ? error : name);
    size_t taken = (size_t)written < capacity ? (size_t)written : capacity - 1;
    why += taken;
    capacity -= taken;
  }
  return NULL;
}

static void nccl_ask(void *library, nccl_letter *letter) {
  nccl_get_unique_id get_unique_id;
  nccl_get_error_string get_error_string;
  nccl_find(library, "ncclGetUniqueId", &get_unique_id);
  nccl_find(library, "ncclGetErrorString", &get_error_string);
  if (get_unique_id == NULL) {
    snprintf(letter->problem, sizeof letter->problem,
             "what was loaded has no function ncclGetUniqueId");
    dlclose(library);
    return;
  }
  int result = get_unique_id(letter->id);
  if (result == 0) return;
  const char *text = get_error_string != NULL ? get_error_string(result) : "";
  snprintf(letter->problem, sizeof letter->problem, "ncclGetUniqueId failed with %d (%s)", result,
           text);
}

static void nccl_write(const char *libraries, nccl_letter *letter) {
  void *library = nccl_load(libraries, letter);
  if (library == NULL) return;
  letter->problem[0] = '\0'; /* why those before it could not be loaded */
  nccl_ask(library, letter);
}

static ring_status nccl_fail(ring_comm *comm, const nccl_letter *letter) {
  ring_status status = ring_comm_enter_beside(comm);
  if (status != RING_OK) return status;
  status = ring_error_set(&comm->error, RING_UNSUPPORTED, 0, 0,
                          "rank 0 (%s) has no unique id of NCCL: %.*s. Install NCCL there, or say "
                          "where it is",
                          ring_peers_host(&comm->peers, 0), (int)sizeof letter->problem - 1,
                          letter->problem);
  ring_comm_leave(comm);
  return status;
}

ring_status ring_nccl_id(ring_comm *comm, const char *libraries, void *id) {
  nccl_letter letter;
  memset(&letter, 0, sizeof letter);
  ring_status status = ring_comm_enter_beside(comm);
  if (status != RING_OK) return status;
  bool asks = comm->peers.rank == 0;
  if (id == NULL) ring_error_set(&comm->error, RING_INVALID, -1, 0, "id is NULL");
  ring_comm_leave(comm);
  if (id == NULL) return RING_INVALID;
  if (asks) nccl_write(libraries != NULL ? libraries : "libnccl.so.2:libnccl.so", &letter);
  status = ring_broadcast(comm, &letter, &letter, sizeof letter, RING_UINT8, 0);
  if (status != RING_OK) return status;
  if (letter.problem[0] != '\0') return nccl_fail(comm, &letter);
  memcpy(id, letter.id, sizeof letter.id);
  return RING_OK;
}
