/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank of this host passes the handshake, and then writes nonsense into the shared memory, or
 * passes a descriptor that is no such memory. The other ranks do not crash, do not use the
 * nonsense, and name that rank. Functions of the core are wrapped (--wrap), so that one rank can
 * forge its buffers and the descriptor.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/comm_state.h"
#include "base/platform.h"
#include "base/platform_memory.h"
#include "buffers.h"
#include "check.h"
#include "leaks.h"
#include "openings.h"
#include "ranks.h"
#include "shm_collectives/job.h"
#include "transport/arena.h"
#include "transport/socket.h"

enum { RANKS = 3, FORGER = 2, COUNT = 60000 };

/* ---- Where buffers are -------------------------------------------------------------------- */

typedef enum forgery_about {
  FORGED_INPUT,
  FORGED_OUTPUT,
  FORGED_BOUNCE,
  FORGED_KINDS
} forgery_about;

/* The offset that the forger posts for a buffer. */
static struct {
  bool posted; /* at least once */
  const void *buffer;
  uint64_t offset;
} forgery;

bool __real_ring_arena_offset(const ring_arena *arena, const void *buffer, size_t bytes,
                              uint64_t *offset);
bool __wrap_ring_arena_offset(const ring_arena *arena, const void *buffer, size_t bytes,
                              uint64_t *offset);
bool __wrap_ring_arena_offset(const ring_arena *arena, const void *buffer, size_t bytes,
                              uint64_t *offset) {
  bool within = __real_ring_arena_offset(arena, buffer, bytes, offset);
  if (forgery.buffer == NULL || buffer != forgery.buffer) return within;
  *offset = forgery.offset;
  forgery.posted = true;
  return true;
}

typedef ring_status (*collective)(ring_comm *comm, const float *x, float *y);

static ring_status do_allreduce(ring_comm *comm, const float *x, float *y) {
  return ring_allreduce(comm, x, y, COUNT, RING_FLOAT32, RING_SUM);
}

static ring_status do_reduce(ring_comm *comm, const float *x, float *y) {
  return ring_reduce(comm, x, y, COUNT, RING_FLOAT32, RING_SUM, FORGER);
}

static ring_status do_broadcast(ring_comm *comm, const float *x, float *y) {
  return ring_broadcast(comm, x, y, COUNT, RING_FLOAT32, FORGER);
}

static ring_status do_allgather(ring_comm *comm, const float *x, float *y) {
  return ring_allgather(comm, x, y, COUNT / RANKS, RING_FLOAT32);
}

static ring_status do_gather(ring_comm *comm, const float *x, float *y) {
  return ring_gather(comm, x, y, COUNT / RANKS, RING_FLOAT32, FORGER);
}

static ring_status do_scatter(ring_comm *comm, const float *x, float *y) {
  return ring_scatter(comm, x, y, COUNT / RANKS, RING_FLOAT32, FORGER);
}

static ring_status do_reduce_scatter(ring_comm *comm, const float *x, float *y) {
  return ring_reduce_scatter(comm, x, y, COUNT / RANKS, RING_FLOAT32, RING_SUM);
}

static ring_status do_alltoall(ring_comm *comm, const float *x, float *y) {
  return ring_alltoall(comm, x, y, COUNT / RANKS, RING_FLOAT32);
}

static const collective collectives[] = {do_allreduce, do_reduce,  do_broadcast,      do_allgather,
                                         do_gather,    do_scatter, do_reduce_scatter, do_alltoall};

/* A case: the collective, the buffer of the forgery, and the false offset. */
typedef struct forgery_case {
  size_t collective;
  forgery_about about;
  int offset;
} forgery_case;

enum { OFFSETS = 5 };

/* `total`: the first byte behind the arena. */
static uint64_t forgery_of(int number, uint64_t total) {
  switch (number) {
  case 0:
    return total;
  case 1:
    return total - 64; /* begins inside the arena and ends behind it */
  case 2:
    return UINT64_C(1) << 62;
  case 3:
    return UINT64_MAX - 63;
  default:
    return 64; /* in the control block */
  }
}

/* The input and the output of a rank are in the arena, unless the forgery is about a bounce buffer. */
static float *get(ring_comm *comm, bool arena) {
  return buffer_alloc(comm, arena, COUNT * sizeof(float));
}

static void prepare_forgery(const ring_comm *comm, const forgery_case *the_case, const float *x,
                            const float *y) {
  const ring_shm *shm = &comm->shm;
  uint64_t front;
  CHECK(!__real_ring_arena_offset(shm->arena, ring_arena_front(shm->arena), 1, &front));
  size_t region = ring_arena_region(shm->arena), first = 0;
  while (ring_arena_at(shm->arena, first, 0) == NULL) first += 4096;
  forgery.buffer = the_case->about == FORGED_INPUT    ? x
                   : the_case->about == FORGED_OUTPUT ? y
                                                      : shm->bounce;
  forgery.offset = forgery_of(the_case->offset, first + RANKS * region);
}

/* All other ranks fail and name the forger, or no rank uses the buffer of the forgery. */
static void call_with_forgery(int rank, int size, void *shared) {
  const forgery_case *the_case = shared;
  bool arena = the_case->about != FORGED_BOUNCE;
  ring_comm *comm = open_rank(rank, size);
  float *x = get(comm, arena), *y = get(comm, arena);
  CHECK(comm->shm.formed);
  for (size_t i = 0; i < sizeof collectives / sizeof *collectives; i++)
    CHECK_INT(collectives[i](comm, x, y), RING_OK); /* which allocates bounce buffers */
  if (rank == FORGER) prepare_forgery(comm, the_case, x, y);
  ring_status status = collectives[the_case->collective](comm, x, y);
  if (rank == FORGER) CHECK(forgery.posted);
  if (status == RING_OK)
    status = ring_barrier(comm); /* a rank that did not use the buffer fails here */
  if (status != RING_OK) {
    CHECK_INT(status, RING_PEER_LOST);
    CHECK_INT(ring_comm_error(comm)->rank, FORGER);
    CHECK_CONTAINS(ring_comm_error(comm)->message, "rank 2 (127.0.0.1) reported in ");
    CHECK_CONTAINS(ring_comm_error(comm)->message, "buffers that lie outside the shared memory");
  }
  forgery.buffer = NULL;
  buffer_free(x, arena);
  buffer_free(y, arena);
  status == RING_OK ? close_rank(comm) : ring_comm_free(comm);
  if (rank == 0 && status != RING_OK) *(int *)((forgery_case *)shared + 1) += 1;
}

/* The number of forgeries that were detected; the others were about buffers that no rank uses. */
static int count_found(size_t number, forgery_about about) {
  forgery_case *the_case = shared_alloc(4096);
  *the_case = (forgery_case){.collective = number, .about = about};
  for (the_case->offset = 0; the_case->offset < OFFSETS; the_case->offset++)
    run_ranks(RANKS, call_with_forgery, the_case);
  int found = *(int *)(the_case + 1);
  shared_free(the_case, 4096);
  return found;
}

static void test_buffers_that_lie_nowhere(void) {
  for (size_t i = 0; i < sizeof collectives / sizeof *collectives; i++)
    for (int about = FORGED_INPUT; about < FORGED_BOUNCE; about++)
      CHECK_INT(count_found(i, (forgery_about)about), OFFSETS);
}

static void test_stages_that_lie_nowhere(void) {
  for (size_t i = 0; i < sizeof collectives / sizeof *collectives; i++)
    CHECK_INT(count_found(i, FORGED_BOUNCE), OFFSETS);
}

/* ---- The control block --------------------------------------------------------------------- */

/* The forger fills the control block with values that no rank writes. The other ranks do a bounded
 * amount of work, and fail. */
static void read_false_control_block(int rank, int size, void *shared) {
  ring_comm *comm = open_rank(rank, size);
  ring_control_block *control_block = comm->shm.control_block;
  float *x = get(comm, true), *y = get(comm, true);
  ring_status status = RING_OK;
  int *arrived = shared;
  CHECK_INT(do_allreduce(comm, x, y), RING_OK);
  ranks_barrier(arrived, size);
  if (rank == FORGER) {
    atomic_store(&control_block->sleeping, UINT64_MAX);
    for (int i = 0; i < RING_SLOTS; i++) atomic_store(&control_block->claims[i].next, 3);
    memset(&control_block->failure, 'x', sizeof control_block->failure);
    control_block->failure.status = *(arrived + 1) != 0 ? (ring_status)4711 : RING_OK;
    atomic_store(&control_block->failed, 2);
  }
  for (int tries = 0; tries < 100 && status == RING_OK; tries++) status = do_allreduce(comm, x, y);
  CHECK_INT(status, RING_ABORTED);
  CHECK_INT(ring_comm_error(comm)->rank, -1);
  CHECK(strlen(ring_comm_error(comm)->message) < sizeof ring_comm_error(comm)->message);
  buffer_free(x, true);
  buffer_free(y, true);
  ring_comm_free(comm);
}

static void test_a_control_block_full_of_nonsense(void) {
  int *arrived = shared_alloc(64);
  for (arrived[1] = 0; arrived[1] < 2; arrived[1]++) {
    arrived[0] = 0;
    run_ranks(RANKS, read_false_control_block, arrived);
  }
  shared_free(arrived, 64);
}

static ring_shm *claimed; /* its claims are reset with every fold */

void __real_ring_shm_fold(const ring_shm_job *job, const void *const *sources, void *destination,
                          size_t count);
void __wrap_ring_shm_fold(const ring_shm_job *job, const void *const *sources, void *destination,
                          size_t count);
void __wrap_ring_shm_fold(const ring_shm_job *job, const void *const *sources, void *destination,
                          size_t count) {
  __real_ring_shm_fold(job, sources, destination, count);
  for (int i = 0; claimed != NULL && i < RING_SLOTS; i++)
    atomic_store(&claimed->control_block->claims[i].next, 1);
}

/* The chunks of a large call are claimed from a counter that never grows. */
static void claim_without_end(int rank, int size, void *shared) {
  enum { LONG = 1 << 20 };
  ring_comm *comm = open_rank(rank, size);
  void *memory;
  (void)shared;
  CHECK_INT(ring_alloc(comm, LONG * sizeof(float), &memory), RING_OK);
  memset(memory, 0, LONG * sizeof(float));
  claimed = &comm->shm;
  CHECK_INT(ring_allreduce(comm, memory, memory, LONG, RING_FLOAT32, RING_SUM), RING_OK);
  claimed = NULL;
  ring_free(memory);
  close_rank(comm);
}

static void test_claims_without_end(void) {
  run_ranks(RANKS, claim_without_end, NULL);
}

/* ---- False descriptors -------------------------------------------------------------------- */

typedef enum passing {
  PASS_MEMORY,
  PASS_UNSEALED,
  PASS_SHORT,
  PASS_A_PIPE,
  PASS_TWO,
  PASS_A_LARGE_REGION,
  PASS_UNALIGNED,
  PASSINGS
} passing;

static passing passes; /* by the first rank */

int __real_ring_socket_send_fd(int fd, int descriptor, const void *bytes, size_t length);
int __wrap_ring_socket_send_fd(int fd, int descriptor, const void *bytes, size_t length);

static int pass_two(int fd, int descriptor, const void *bytes, size_t length) {
  _Alignas(struct cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {0};
  struct iovec piece = {(void *)(uintptr_t)bytes, length};
  struct msghdr message = {
      .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
  const int both[2] = {descriptor, descriptor};
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof both);
  memcpy(CMSG_DATA(rights), both, sizeof both);
  CHECK_INT(sendmsg(fd, &message, MSG_NOSIGNAL), length);
  return 0;
}

int __wrap_ring_socket_send_fd(int fd, int descriptor, const void *bytes, size_t length) {
  uint64_t message[2]; /* front, region */
  int ends[2] = {-1, -1}, other = descriptor;
  off_t total = lseek(descriptor, 0, SEEK_END);
  CHECK(length == sizeof message && total > 0);
  memcpy(message, bytes, length);
  if (passes == PASS_TWO) return pass_two(fd, descriptor, bytes, length);
  if (passes == PASS_UNSEALED) {
    other = memfd_create("sparkring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK_INT(ftruncate(other, total), 0);
  }
  if (passes == PASS_SHORT) other = ring_platform_memory((size_t)total - 4096);
  if (passes == PASS_A_PIPE) CHECK_INT(ring_platform_pipe(ends), 0);
  if (passes == PASS_A_PIPE) other = ends[1];
  if (passes == PASS_A_LARGE_REGION) message[1] += UINT64_C(1) << 63; /* twice that is 0 */
  if (passes == PASS_UNALIGNED) message[1] += 1;
  CHECK(other >= 0);
  int code = __real_ring_socket_send_fd(fd, other, message, length);
  if (other != descriptor) close(other);
  if (ends[0] >= 0) close(ends[0]);
  return code;
}

/* Two ranks: a rank that gets a false descriptor does not map it, and both ranks use links. */
static void take_what_is_passed(int rank, int size, void *shared) {
  int before = count_descriptors();
  passes = *(const passing *)shared;
  ring_comm *comm = open_rank(rank, size);
  CHECK_INT(comm->shm.formed, passes == PASS_MEMORY);
  CHECK_INT(arena_is_mapped(), passes == PASS_MEMORY);
  check_ring(comm);
  close_rank(comm);
  CHECK_INT(count_descriptors(), before);
}

static void test_memory_that_is_none(void) {
  passing *shared = shared_alloc(64);
  for (int i = PASS_MEMORY; i < PASSINGS; i++) {
    *shared = (passing)i;
    run_ranks(2, take_what_is_passed, shared);
  }
  shared_free(shared, 64);
}

int main(void) {
  RUN(test_buffers_that_lie_nowhere);
  RUN(test_stages_that_lie_nowhere);
  RUN(test_a_control_block_full_of_nonsense);
  RUN(test_claims_without_end);
  RUN(test_memory_that_is_none);
  return 0;
}
