/* SPDX-License-Identifier: Apache-2.0
 *
 * The unique id of NCCL: rank 0 alone asks for it, all get the same, and why there is none is an error
 * on all, after which the communicator goes on. The library is tests/core/libraries/nccl.c.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "ranks.h"

enum { RANKS = 3 };

#define STUB SPARKRING_NCCL_STUB

static int stub_calls(void) {
  void *library = dlopen(STUB, RTLD_NOW);
  CHECK(library != NULL);
  int (*calls)(void);
  void *found = dlsym(library, "stub_calls");
  CHECK(found != NULL);
  memcpy(&calls, &found, sizeof calls);
  return calls();
}

static void share_ids(ring_comm *comm, void *shared) {
  (void)shared;
  for (int round = 1; round <= 2; round++) {
    unsigned char id[RING_NCCL_ID_BYTES];
    const char *list = round == 1 ? STUB : "/no/such/library::" STUB ":/nor/this";
    CHECK_INT(ring_nccl_id(comm, list, id), RING_OK);
    for (size_t i = 0; i < sizeof id; i++) CHECK_INT(id[i], (unsigned char)(i * 7 + (size_t)round));
  }
  CHECK_INT(stub_calls(), ring_comm_rank(comm) == 0 ? 2 : 0);
}

/* Nobody has an id, all know why, and go on. */
static void expect_none(ring_comm *comm, const char *list, const char *why) {
  unsigned char id[RING_NCCL_ID_BYTES];
  CHECK_INT(ring_nccl_id(comm, list, id), RING_UNSUPPORTED);
  const ring_error *error = ring_comm_error(comm);
  CHECK_INT(error->status, RING_UNSUPPORTED);
  CHECK_INT(error->rank, 0);
  CHECK(strstr(error->message, "rank 0 (127.0.0.1) has no unique id of NCCL: ") != NULL);
  CHECK(strstr(error->message, why) != NULL);
  CHECK_INT(ring_barrier(comm), RING_OK);
}

static void fail(ring_comm *comm, void *shared) {
  (void)shared;
  expect_none(comm, "/no/such/library:/nor/this", "/nor/this");
  expect_none(comm, "/no/such/library:/nor/this", "/no/such/library");
  expect_none(comm, "libm.so.6", "no function ncclGetUniqueId");
  CHECK_INT(setenv("NCCL_STUB_FAILS", "1", 1), 0);
  expect_none(comm, STUB, "ncclGetUniqueId failed with 3 (the stub fails)");
  char many[4000];
  memset(many, 'x', sizeof many);
  for (size_t i = 100; i < sizeof many; i += 100) many[i] = ':';
  many[sizeof many - 1] = '\0';
  expect_none(comm, many, "xxx");
}

static void call_wrongly(void) {
  unsigned char id[RING_NCCL_ID_BYTES];
  ring_comm *comm = open_rank(0, 1);
  CHECK_INT(ring_nccl_id(NULL, NULL, id), RING_INVALID);
  CHECK_INT(ring_nccl_id(comm, STUB, NULL), RING_INVALID);
  CHECK_INT(ring_nccl_id(comm, "", id), RING_UNSUPPORTED);
  CHECK_INT(ring_comm_close(comm), RING_OK);
  CHECK_INT(ring_nccl_id(comm, STUB, id), RING_INVALID);
  CHECK_INT(stub_calls(), 0);
  ring_comm_free(comm);
}

int main(void) {
  run_comms(RANKS, share_ids, NULL);
  run_comms(RANKS, fail, NULL);
  call_wrongly();
  return 0;
}
