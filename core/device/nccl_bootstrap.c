/* SPDX-License-Identifier: Apache-2.0
 *
 * The unique id from which the ranks of an NCCL communicator find each other. Rank 0 gets it from
 * the library and broadcasts a reply: the id, or the reason why there is none. The library is
 * loaded at run time, because few hosts have it. It stays loaded: a thread of it serves the ranks.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "api/comm_state.h"
#include "base/error.h"
#include "base/library.h"
#include "device/nccl_api.h"

typedef struct nccl_reply {
  ring_nccl_unique_id id;
  char problem[512]; /* "" when there is none */
} nccl_reply;

static void nccl_ask(void *library, nccl_reply *reply) {
  ring_nccl_result (*get_unique_id)(ring_nccl_unique_id *);
  const char *(*get_error_string)(ring_nccl_result);
  ring_library_find(library, "ncclGetUniqueId", &get_unique_id);
  ring_library_find(library, "ncclGetErrorString", &get_error_string);
  if (get_unique_id == NULL) {
    snprintf(reply->problem, sizeof reply->problem,
             "what was loaded has no function ncclGetUniqueId");
    dlclose(library);
    return;
  }
  ring_nccl_result result = get_unique_id(&reply->id);
  if (result == 0) return;
  const char *text = get_error_string != NULL ? get_error_string(result) : "";
  snprintf(reply->problem, sizeof reply->problem, "ncclGetUniqueId failed with %d (%s)", result,
           text);
}

static void nccl_write(const char *libraries, nccl_reply *reply) {
  void *library = ring_library_load(libraries, reply->problem, sizeof reply->problem);
  if (library != NULL) nccl_ask(library, reply);
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
  if (asks) nccl_write(libraries != NULL ? libraries : RING_NCCL_LIBRARIES, &reply);
  status = ring_broadcast(comm, &reply, &reply, sizeof reply, RING_UINT8, 0);
  if (status != RING_OK) return status;
  if (reply.problem[0] != '\0') return nccl_fail(comm, &reply);
  memcpy(id, &reply.id, sizeof reply.id);
  return RING_OK;
}
