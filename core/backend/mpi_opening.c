/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/mpi_opening.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/mpi_library.h"
#include "backend/mpi_loader.h"
#include "base/address.h"
#include "base/error.h"
#include "base/platform.h"

#define OPENING_SLEEP_MS 1
#define OPENING_TAGS 32768

/* Up to so many ranks collectives go over messages of MPI, which is faster there. MPI's own collectives may use what
 * many ranks and their networks have. */
#define OPENING_MOST "SPARKRING_MPI_MESSAGES"
#define OPENING_MOST_DEFAULT 8

/* The ranks exchange the MPI of each. */
typedef struct opening_entry {
  uint64_t version;   /* of its library */
  int32_t rank, size; /* in MPI_COMM_WORLD */
  int32_t most;       /* ranks that use messages */
  int32_t failed;     /* ring_status */
  uint64_t processors[RING_PROCESSOR_WORDS];
  char why[944]; /* "" unless it failed */
} opening_entry;

/* A call of MPI that blocks, on a thread of its own. The last of its two users frees it. */
typedef struct opening_job {
  void (*run)(struct opening_job *job);
  atomic_int users; /* the thread, and the rank that waits for it */
  atomic_bool done;
  const ring_mpi_driver *driver;
  int rank; /* of this process */
  ring_status status;
  ring_error error;
  int world_rank, world_size; /* results of init */
  int count, tag;             /* arguments of form */
  ring_mpi_handle comm;       /* its result */
  int ranks[];
} opening_job;

static const ring_call opening_call = {.collective = RING_COLLECTIVE_OPEN_ALLGATHER,
                                       .dtype = RING_UINT8,
                                       .count = sizeof(opening_entry)};

/* ---- Jobs --------------------------------------------------------------------------------- */

static void opening_fail(opening_job *job, const char *what, int code) {
  char text[RING_MPI_TEXT];
  job->driver->explain(code, text);
  job->status = ring_error_set(&job->error, RING_SYSTEM, job->rank, 0,
                               "%s failed on rank %d: %.400s", what, job->rank, text);
}

/* Enters MPI, unless it is abandoned. */
static bool opening_enter(opening_job *job) {
  if (ring_mpi_library_enter()) return true;
  job->status = ring_mpi_library_check(job->rank, &job->error);
  return false;
}

static void opening_init(opening_job *job) {
  job->status = ring_mpi_library_init(job->rank, &job->error);
  if (job->status != RING_OK || !opening_enter(job)) return;
  int code = job->driver->world(&job->world_rank, &job->world_size);
  if (code != 0) opening_fail(job, "MPI_Comm_rank", code);
  ring_mpi_library_leave();
}

static void opening_form(opening_job *job) {
  if (!opening_enter(job)) return;
  int code = job->driver->form(job->ranks, job->count, job->tag, &job->comm);
  if (code != 0) opening_fail(job, "MPI_Comm_create_group", code);
  ring_mpi_library_leave();
}

static void opening_leave(opening_job *job) {
  if (atomic_fetch_sub(&job->users, 1) == 1) free(job);
}

static void *opening_main(void *arg) {
  opening_job *job = arg;
  job->run(job);
  atomic_store(&job->done, true);
  opening_leave(job);
  return NULL;
}

static opening_job *opening_job_alloc(const ring_mpi *mpi, void (*run)(opening_job *)) {
  size_t count = (size_t)mpi->native->engine.peers->size;
  opening_job *job = calloc(1, sizeof *job + count * sizeof *job->ranks);
  if (job == NULL) return NULL;
  job->run = run;
  job->driver = mpi->driver;
  job->rank = mpi->native->engine.peers->rank;
  job->count = (int)count;
  atomic_store(&job->users, 2);
  return job;
}

/* Runs a job and waits for it. The caller leaves it after. Threads of MPI inherit from this thread that all signals
 * are blocked (ring_platform_thread). */
static ring_status opening_await(ring_mpi *mpi, opening_job *job, ring_wait *wait,
                                 ring_error *error) {
  pthread_t thread;
  int code = ring_platform_thread(&thread, opening_main, job);
  if (code != 0) {
    atomic_store(&job->users, 1);
    return ring_error_set(error, RING_SYSTEM, job->rank, code,
                          "rank %d cannot start a thread for MPI", job->rank);
  }
  pthread_detach(thread);
  ring_status status = RING_OK;
  ring_outside_wait_record(&mpi->outside, &opening_call);
  ring_outside_wait_begin(&mpi->outside, &opening_call, NULL, wait, error);
  while (!atomic_load(&job->done) && status == RING_OK) {
    poll(NULL, 0, OPENING_SLEEP_MS);
    status = ring_outside_wait_look(&mpi->outside);
  }
  ring_outside_wait_end(&mpi->outside, status);
  if (status != RING_OK) return status;
  if (job->status != RING_OK) *error = job->error;
  return job->status;
}

/* ---- Exchanging --------------------------------------------------------------------------- */

static ring_status opening_exchange(ring_mpi *mpi, const int *nodes, opening_entry *entries,
                                    ring_wait *wait, ring_error *error) {
  ring_backend *native = &mpi->native->base;
  const ring_peers *peers = mpi->native->engine.peers;
  ring_backend_call call = {.outline = {.call = opening_call,
                                        .rank = peers->rank,
                                        .size = peers->size,
                                        .nodes = nodes,
                                        .parts.count = sizeof *entries},
                            .signature = &opening_call,
                            .input = &entries[peers->rank],
                            .output = entries,
                            .output_count = (uint64_t)peers->size * sizeof *entries,
                            .wait = wait};
  call.outline.call.collective = RING_COLLECTIVE_ALLGATHER;
  return native->table->run(native, &call, error);
}

/* Exchanges the entries, and fails on all ranks alike where a rank has failed. `status`: of this rank, which
 * *error explains. */
static ring_status opening_agree(ring_mpi *mpi, const int *nodes, opening_entry *entries,
                                 ring_status status, ring_wait *wait, ring_error *error) {
  const ring_peers *peers = mpi->native->engine.peers;
  opening_entry *own = &entries[peers->rank];
  own->failed = status;
  snprintf(own->why, sizeof own->why, "%.943s", status != RING_OK ? error->message : "");
  status = opening_exchange(mpi, nodes, entries, wait, error);
  for (int rank = 0; rank < peers->size && status == RING_OK; rank++)
    if (entries[rank].failed != RING_OK)
      status = ring_error_set(error, (ring_status)entries[rank].failed, rank, 0, "%.943s (%s)",
                              entries[rank].why, ring_peers_host(peers, rank));
  return status;
}

/* Before MPI starts: two different libraries would wait for each other, or abort. */
static ring_status opening_check_alike(const ring_mpi *mpi, const opening_entry *entries,
                                       ring_error *error) {
  const ring_peers *peers = mpi->native->engine.peers;
  for (int rank = 0; rank < peers->size; rank++)
    if (entries[rank].version != entries[0].version)
      return ring_error_set(error, RING_UNSUPPORTED, rank, 0,
                            "rank %d (%s) has another MPI library than rank 0 (%s): install the "
                            "same, or name it by " RING_MPI_LIBRARY_VARIABLE " on all ranks",
                            rank, ring_peers_host(peers, rank), ring_peers_host(peers, 0));
  for (int rank = 0; rank < peers->size; rank++)
    if (entries[rank].most != entries[0].most)
      return ring_error_set(error, RING_MISMATCH, rank, 0,
                            OPENING_MOST " is %d on rank %d (%s), and %d on rank 0 (%s): set it "
                                         "alike on all ranks",
                            entries[rank].most, rank, ring_peers_host(peers, rank), entries[0].most,
                            ring_peers_host(peers, 0));
  return RING_OK;
}

/* Whether a rank is another process of MPI than all ranks before it. */
static bool opening_is_own(const opening_entry *entries, int rank) {
  for (int before = 0; before < rank; before++)
    if (entries[before].rank == entries[rank].rank) return false;
  return true;
}

static ring_status opening_check_world(const ring_mpi *mpi, const opening_entry *entries,
                                       ring_error *error) {
  const ring_peers *peers = mpi->native->engine.peers;
  for (int rank = 0; rank < peers->size; rank++)
    if (entries[rank].size < peers->size || !opening_is_own(entries, rank))
      return ring_error_set(
          error, RING_UNSUPPORTED, rank, 0,
          "rank %d (%s) is rank %d of %d in MPI, and this communicator has %d "
          "ranks, each with an own number in MPI: start them with one mpirun "
          "of that MPI library, or name the library of the launcher by " RING_MPI_LIBRARY_VARIABLE,
          rank, ring_peers_host(peers, rank), entries[rank].rank, entries[rank].size, peers->size);
  return RING_OK;
}

static int opening_count(const uint64_t processors[RING_PROCESSOR_WORDS]) {
  int count = 0;
  for (int i = 0; i < RING_PROCESSOR_WORDS; i++) count += __builtin_popcountll(processors[i]);
  return count;
}

/* Whether the host of this rank has more ranks than processors for them. Launchers of MPI often bind each rank to
 * a processor, so the ranks' processors count together, except under a quota. */
static bool opening_is_crowded(const ring_peers *peers, const int *nodes,
                               const opening_entry *entries) {
  uint64_t all[RING_PROCESSOR_WORDS] = {0};
  int ranks = 0, quota = ring_platform_processors();
  int own = opening_count(entries[peers->rank].processors);
  if (own == 0) return peers->cores != RING_CORES_SUFFICE;
  for (int rank = 0; rank < peers->size; rank++) {
    if (nodes[rank] != nodes[peers->rank]) continue;
    ranks++;
    for (int i = 0; i < RING_PROCESSOR_WORDS; i++) all[i] |= entries[rank].processors[i];
  }
  return ranks > (quota < own ? quota : opening_count(all));
}

/* ---- All of it ---------------------------------------------------------------------------- */

/* Reads how many ranks use messages. */
static ring_status opening_read_most(int rank, int *most, ring_error *error) {
  const char *text = getenv(OPENING_MOST);
  char *end;
  *most = OPENING_MOST_DEFAULT;
  if (text == NULL || *text == '\0') return RING_OK;
  long number = strtol(text, &end, 10);
  if (*end != '\0' || number < 0 || number > INT_MAX)
    return ring_error_set(error, RING_INVALID, rank, 0,
                          OPENING_MOST " is %s on rank %d: pass a number of ranks, or unset it",
                          ring_quote(text).text, rank);
  *most = (int)number;
  return RING_OK;
}

/* Loads the library, and fills in this rank's entry what can be compared before MPI starts. */
static ring_status opening_load(ring_mpi *mpi, bool alone, opening_entry *own, ring_error *error) {
  int rank = mpi->native->engine.peers->rank;
  if (!alone)
    return ring_error_set(error, RING_BUSY, rank, 0,
                          "rank %d opens another communicator with the backend mpi at the same "
                          "time: open one after the other",
                          rank);
  ring_status status = ring_mpi_library_check(rank, error);
  if (status == RING_OK) status = opening_read_most(rank, &mpi->messages.most, error);
  own->most = mpi->messages.most;
  if (status == RING_OK) status = ring_mpi_library_load(rank, &mpi->driver, error);
  if (status == RING_OK) status = ring_mpi_library_launched(rank, error);
  own->version = ring_mpi_library_version();
  ring_platform_affinity(own->processors);
  return status;
}

/* Initializes MPI, and fills in this rank's place in it. */
static ring_status opening_start(ring_mpi *mpi, opening_entry *own, ring_wait *wait,
                                 ring_error *error) {
  opening_job *job = opening_job_alloc(mpi, opening_init);
  if (job == NULL) return ring_error_no_memory(error, mpi->native->engine.peers->rank);
  ring_status status = opening_await(mpi, job, wait, error);
  if (status == RING_OK) {
    own->rank = job->world_rank;
    own->size = job->world_size;
  }
  opening_leave(job);
  return status;
}

static ring_status opening_connect(ring_mpi *mpi, const opening_entry *entries, ring_wait *wait,
                                   ring_error *error) {
  const ring_peers *peers = mpi->native->engine.peers;
  opening_job *job = opening_job_alloc(mpi, opening_form);
  if (job == NULL) return ring_error_no_memory(error, peers->rank);
  for (int rank = 0; rank < peers->size; rank++) job->ranks[rank] = entries[rank].rank;
  job->tag = (int)(peers->epoch % OPENING_TAGS);
  ring_status status = opening_await(mpi, job, wait, error);
  mpi->comm = job->comm;
  mpi->formed = status == RING_OK;
  if (mpi->formed) ring_mpi_library_formed();
  opening_leave(job);
  return status;
}

/* Initializes MPI on all ranks, and forms the communicator. Where MPI itself fails, or a rank is lost, all ranks
 * abandon MPI: in MPI_Finalize they would wait for each other. */
static ring_status opening_form_all(ring_mpi *mpi, const int *nodes, opening_entry *entries,
                                    ring_wait *wait, ring_error *error) {
  opening_entry *own = &entries[mpi->native->engine.peers->rank];
  ring_status status = opening_start(mpi, own, wait, error);
  if (status == RING_OK || status == RING_UNSUPPORTED)
    status = opening_agree(mpi, nodes, entries, status, wait, error);
  if (status == RING_OK) status = opening_check_world(mpi, entries, error);
  if (status == RING_OK) {
    mpi->crowded = opening_is_crowded(mpi->native->engine.peers, nodes, entries);
    status = opening_connect(mpi, entries, wait, error);
  }
  if (status != RING_OK && status != RING_UNSUPPORTED) ring_mpi_library_abandon(error);
  return status;
}

static ring_status opening_run(ring_mpi *mpi, bool alone, const int *nodes, opening_entry *entries,
                               ring_wait *wait, ring_error *error) {
  ring_status status = opening_load(mpi, alone, &entries[mpi->native->engine.peers->rank], error);
  status = opening_agree(mpi, nodes, entries, status, wait, error);
  if (status == RING_OK) status = opening_check_alike(mpi, entries, error);
  return status == RING_OK ? opening_form_all(mpi, nodes, entries, wait, error) : status;
}

ring_status ring_mpi_open(ring_native *native, const int *nodes, ring_wait *wait, ring_mpi **out,
                          ring_error *error) {
  const ring_peers *peers = native->engine.peers;
  ring_mpi *mpi = ring_mpi_alloc(native);
  opening_entry *entries = calloc((size_t)peers->size, sizeof *entries);
  bool alone = ring_mpi_library_begin_opening();
  ring_status status = RING_OK;
  if (mpi == NULL || entries == NULL)
    status = ring_error_no_memory(error, peers->rank);
  else
    status = opening_run(mpi, alone, nodes, entries, wait, error);
  if (alone) ring_mpi_library_end_opening();
  free(entries);
  if (status != RING_OK && mpi != NULL) ring_mpi_free(mpi, false);
  *out = status == RING_OK ? mpi : NULL;
  return status;
}
