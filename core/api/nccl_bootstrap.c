/* SPDX-License-Identifier: Apache-2.0
 *
 * The unique id from which the ranks of an NCCL communicator find each other. Rank 0 gets it from
 * the library and broadcasts a reply: the id, or the reason why there is none. The library is
 * loaded at run time, because few hosts have it. It stays loaded: a thread of it serves the ranks.
 * The interface declared here has been the same since NCCL 2.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "api/comm_state.h"
#include "base/error.h"
#include "sparkring.h"

typedef struct nccl_reply {
  unsigned char id[RING_NCCL_ID_BYTES];
  char problem[512]; /* "" when there is none */
} nccl_reply;

/* An ncclUniqueId is an array of chars; an ncclResult_t is an enum with 0 for success. */
typedef int (*nccl_get_unique_id)(unsigned char *id);
typedef const char *(*nccl_get_error_string)(int result);

/* POSIX converts a data pointer to a function pointer; ISO C does not. */
static void nccl_find(void *library, const char *name, void *function) {
  void *found = dlsym(library, name);
  memcpy(function, &found, sizeof found);
}

/* Copies the next name of a colon-separated list and moves *list past it. False after the last. */
static bool nccl_next(const char **list, char *name, size_t size) {
  *list += strspn(*list, ":");
  size_t length = strcspn(*list, ":");
  snprintf(name, size, "%.*s", (int)length, *list);
  *list += length;
  return length > 0;
}

/* Loads the first library that can be loaded. Else returns NULL, and reply->problem has the
 * reason for each. */
static void *nccl_load(const char *libraries, nccl_reply *reply) {
  char name[4096], *why = reply->problem;
  snprintf(why, sizeof reply->problem, "no library was named");
  size_t capacity = sizeof reply->problem;
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

static void nccl_ask(void *library, nccl_reply *reply) {
  nccl_get_unique_id get_unique_id;
  nccl_get_error_string get_error_string;
  nccl_find(library, "ncclGetUniqueId", &get_unique_id);
  nccl_find(library, "ncclGetErrorString", &get_error_string);
  if (get_unique_id == NULL) {
    snprintf(reply->problem, sizeof reply->problem,
             "what was loaded has no function ncclGetUniqueId");
    dlclose(library);
    return;
  }
  int result = get_unique_id(reply->id);
  if (result == 0) return;
  const char *text = get_error_string != NULL ? get_error_string(result) : "";
  snprintf(reply->problem, sizeof reply->problem, "ncclGetUniqueId failed with %d (%s)", result,
           text);
}

static void nccl_write(const char *libraries, nccl_reply *reply) {
  void *library = nccl_load(libraries, reply);
  if (library == NULL) return;
  reply->problem[0] = '\0'; /* of the libraries before it */
  nccl_ask(library, reply);
}

static ring_status nccl_fail(ring_comm *comm, const nccl_reply *reply) {
  ring_status status = ring_comm_enter_beside(comm);
  if (status != RING_OK) return status;
  status = ring_error_set(&comm->error, RING_UNSUPPORTED, 0, 0,
                          "rank 0 (%s) has no unique id of NCCL: %.*s. Install NCCL there, or pass "
                          "its path",
                          ring_peers_host(&comm->peers, 0), (int)sizeof reply->problem - 1,
                          reply->problem);
  ring_comm_leave(comm);
  return status;
}

ring_status ring_nccl_id(ring_comm *comm, const char *libraries, void *id) {
  nccl_reply reply;
  memset(&reply, 0, sizeof reply);
  ring_status status = ring_comm_enter_beside(comm);
  if (status != RING_OK) return status;
  bool asks = comm->peers.rank == 0;
  if (id == NULL) ring_error_set(&comm->error, RING_INVALID, -1, 0, "id is NULL");
  ring_comm_leave(comm);
  if (id == NULL) return RING_INVALID;
  if (asks) nccl_write(libraries != NULL ? libraries : "libnccl.so.2:libnccl.so", &reply);
  status = ring_broadcast(comm, &reply, &reply, sizeof reply, RING_UINT8, 0);
  if (status != RING_OK) return status;
  if (reply.problem[0] != '\0') return nccl_fail(comm, &reply);
  memcpy(id, reply.id, sizeof reply.id);
  return RING_OK;
}
