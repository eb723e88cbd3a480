/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/mpi.h"

#include <poll.h>
#include <sched.h>
#include <stdlib.h>

#include "backend/mpi_library.h"
#include "base/error.h"
#include "base/platform.h"
#include "shm/shm_failure.h"

/* MPI moves data in MPI_Test only, so this rank calls it without a pause. After MPI_TESTS calls it reads the
 * clock, and looks at the links every MPI_LOOK_NS. */
#define MPI_TESTS 256
#define MPI_LOOK_NS UINT64_C(1000000)
#define MPI_LONG_NS UINT64_C(50000000) /* a call that waits for a rank, and does not move data */
#define MPI_LONG_LOOK_NS UINT64_C(10000000)

/* How long a rank whose MPI reports an error waits for links to report the cause: looks, and milliseconds
 * before each. */
#define MPI_CAUSE_LOOKS 10
#define MPI_CAUSE_MS 20

static ring_mpi *mpi_of(ring_backend *backend) {
  return (ring_mpi *)backend;
}

/* ---- Failing ------------------------------------------------------------------------------ */

/* Waits for a moment for the links to report why MPI returned an error: another rank is the likely cause. */
static ring_status mpi_await_cause(ring_mpi *mpi) {
  ring_status status = RING_OK;
  for (int i = 0; i < MPI_CAUSE_LOOKS && status == RING_OK; i++) {
    poll(NULL, 0, MPI_CAUSE_MS);
    status = ring_outside_wait_look(&mpi->outside);
  }
  return status;
}

static ring_status mpi_explain_code(ring_mpi *mpi, int code, const ring_call *signature,
                                    ring_error *error) {
  const ring_peers *peers = mpi->native->engine.peers;
  char call[RING_CALL_TEXT], text[RING_MPI_TEXT] = "";
  bool truncated = false;
  ring_status status = mpi_await_cause(mpi);
  if (status != RING_OK) return status;
  if (ring_mpi_library_enter()) {
    truncated = mpi->driver->is_truncation(code);
    mpi->driver->explain(code, text);
    ring_mpi_library_leave();
  }
  ring_call_describe(signature, call, sizeof call);
  if (truncated)
    return ring_error_set(error, RING_MISMATCH, -1, 0,
                          "the ranks made different calls: MPI had more for rank %d (%s) than its "
                          "call, %s, receives: %.400s",
                          peers->rank, ring_peers_host(peers, peers->rank), call, text);
  return ring_error_set(error, RING_SYSTEM, peers->rank, 0,
                        "MPI failed on rank %d (%s) in %s: %.600s", peers->rank,
                        ring_peers_host(peers, peers->rank), call, text);
}

static ring_status mpi_plan_failed(const ring_mpi *mpi, ring_status status, ring_error *error) {
  int rank = mpi->native->engine.peers->rank;
  if (status == RING_NO_MEMORY) return ring_error_no_memory(error, rank);
  return ring_error_set(error, status, rank, 0,
                        "rank %d sends or receives more than 2147483647 elements in an alltoallv, "
                        "which MPI does not carry: pass the data in several calls, or use the "
                        "backend native",
                        rank);
}

/* ---- Running ------------------------------------------------------------------------------ */

/* A call that is carried out by MPI, and how far it has come. */
typedef struct mpi_progress {
  const ring_mpi_plan *plan; /* one collective of MPI; NULL: messages */
  int tag;                   /* of the messages */
  bool large;                /* a test may reduce or copy for long */
  ring_mpi_handle request;
  bool started;
  int done;
  int code; /* MPI's */
} mpi_progress;

/* Looks at the links when it is time to. *yields becomes true in a long call. `works`: the last test may have
 * reduced or copied for long, which must not count as a suspension of the process. */
static ring_status mpi_look(ring_mpi *mpi, bool works, uint64_t *looked, bool *yields) {
  uint64_t now = ring_platform_now();
  ring_wait *wait = mpi->outside.task.wait;
  if (*looked == 0) *looked = now;
  bool lasts = wait->now - wait->begun > MPI_LONG_NS;
  if (now - *looked < (lasts ? MPI_LONG_LOOK_NS : MPI_LOOK_NS)) return RING_OK;
  *looked = now;
  if (works && mpi->outside.run.timed) wait->now = now;
  ring_status status = ring_outside_wait_look(&mpi->outside);
  *yields = *yields || wait->now - wait->begun > MPI_LONG_NS;
  if (status == RING_OK && ring_shm_failed(mpi->native->shm, wait, mpi->outside.run.error))
    status = mpi->outside.run.error->status;
  return status;
}

/* Starts the call if it is not started, and tests it up to `tests` times, as long as MPI reports no error. The caller
 * has entered MPI. */
static void mpi_test(ring_mpi *mpi, int tests, mpi_progress *progress) {
  const ring_mpi_driver *driver = mpi->driver;
  if (progress->plan != NULL && !progress->started)
    progress->code = driver->start(mpi->comm, &progress->plan->work, &progress->request);
  progress->started = true;
  for (int i = 0; i < tests && progress->code == 0 && !progress->done; i++)
    if (progress->plan != NULL)
      progress->code = driver->test(&progress->request, &progress->done);
    else
      progress->code =
          ring_mpi_messages_turn(&mpi->messages, driver, mpi->comm, progress->tag, &progress->done);
}

static int mpi_tests(const mpi_progress *progress, bool yields) {
  return yields || progress->large ? 1 : MPI_TESTS;
}

/* Most short calls are complete at once. Nothing watches them: to begin that takes as long as a message. */
static bool mpi_completes_at_once(ring_mpi *mpi, mpi_progress *progress) {
  if (!ring_mpi_library_try()) return false;
  mpi_test(mpi, mpi_tests(progress, mpi->crowded), progress);
  ring_mpi_library_leave();
  return progress->code == 0 && progress->done;
}

/* Carries the work out, as far as other threads leave MPI to this one. A rank leaves its core to others after
 * each test where there are fewer cores than ranks, and in a long call. */
static ring_status mpi_carry(ring_mpi *mpi, mpi_progress *progress, const ring_call *signature,
                             ring_error *error) {
  bool yields = mpi->crowded;
  ring_status status = RING_OK;
  uint64_t looked = 0;
  while (status == RING_OK) {
    bool mine = ring_mpi_library_try();
    if (mine) {
      mpi_test(mpi, mpi_tests(progress, yields), progress);
      ring_mpi_library_leave();
      if (progress->code != 0) return mpi_explain_code(mpi, progress->code, signature, error);
      if (progress->done) return RING_OK;
    } else {
      status = ring_mpi_library_check(mpi->native->engine.peers->rank, error);
    }
    if (yields || !mine) sched_yield();
    if (status == RING_OK) status = mpi_look(mpi, progress->large, &looked, &yields);
  }
  return status;
}

/* The digest of this call and of those before it, which close compares. */
static uint64_t mpi_digest(const ring_mpi *mpi, const ring_call *call) {
  uint64_t kind = (uint64_t)call->collective << 56 | (uint64_t)call->op << 48 |
                  (uint64_t)call->dtype << 40 | (uint32_t)call->root;
  uint64_t digest = (mpi->base.unchecked ^ kind ^ call->digest) * UINT64_C(0x9e3779b97f4a7c15);
  return (digest ^ digest >> 32 ^ call->count) * UINT64_C(0xbf58476d1ce4e5b9) | 1;
}

/* Plans the call, and fills in *progress. */
static ring_status mpi_begin(ring_mpi *mpi, const ring_backend_call *call, ring_mpi_plan *plan,
                             mpi_progress *progress, ring_error *error) {
  progress->large = ring_mpi_plan_is_large(call);
  if (ring_mpi_messages_serve(&mpi->messages, &call->outline))
    return ring_mpi_messages_begin(&mpi->messages, call, error);
  progress->plan = plan;
  ring_status status = ring_mpi_plan_make(call, &mpi->scratch, plan);
  return status == RING_OK ? RING_OK : mpi_plan_failed(mpi, status, error);
}

/* Carries the call out while the detector works, and other ranks of the host can see what this one is in. */
static ring_status mpi_carry_watched(ring_mpi *mpi, const ring_backend_call *call,
                                     const ring_call *signature, mpi_progress *progress,
                                     ring_error *error) {
  ring_shm *shm = mpi->native->shm;
  bool announces = shm->arena != NULL;
  if (announces) ring_shm_announce(shm, signature);
  ring_outside_wait_begin(&mpi->outside, signature, call->description, call->wait, error);
  ring_status status = mpi_carry(mpi, progress, signature, error);
  ring_outside_wait_end(&mpi->outside, status);
  if (status == RING_OK) {
    if (announces) ring_shm_retire(shm);
    return RING_OK;
  }
  if (ring_shm_failed(shm, call->wait, error)) status = error->status;
  ring_mpi_library_abandon(error);
  return status;
}

/* Messages of ranks that make different calls have different tags, and do not match. */
static ring_status mpi_run(ring_backend *backend, const ring_backend_call *call,
                           ring_error *error) {
  ring_mpi *mpi = mpi_of(backend);
  const ring_call *signature = call->signature != NULL ? call->signature : &call->outline.call;
  uint64_t digest = mpi_digest(mpi, signature);
  ring_mpi_plan plan;
  mpi_progress progress = {.tag = (int)(digest >> 49)};
  ring_status status = ring_mpi_library_check(call->outline.rank, error);
  if (status == RING_OK) status = mpi_begin(mpi, call, &plan, &progress, error);
  ring_outside_wait_record(&mpi->outside, signature);
  if (status == RING_OK && !mpi_completes_at_once(mpi, &progress))
    status = mpi_carry_watched(mpi, call, signature, &progress, error);
  if (status != RING_OK) return status;
  if (progress.plan != NULL) ring_mpi_plan_finish(call, &plan);
  backend->unchecked = digest;
  return RING_OK;
}

static bool mpi_serves(const ring_backend *backend, const ring_outline *outline) {
  (void)backend;
  return ring_mpi_plan_serves(outline);
}

static bool mpi_explain(const ring_backend *backend, const ring_outline *outline,
                        ring_backend_way *way) {
  const ring_mpi_messages *messages = &((const ring_mpi *)backend)->messages;
  *way = (ring_backend_way){.algorithm = "mpi",
                            .reason = "backend",
                            .traffic = "no frames on our links: the MPI library moves the data"};
  if (!ring_mpi_messages_serve(messages, outline)) return true;
  way->algorithm = ring_mpi_messages_algorithm(messages, outline);
  way->reason = "messages of MPI";
  return true;
}

/* ---- Life --------------------------------------------------------------------------------- */

static ring_status mpi_check(const ring_backend *backend, ring_error *error) {
  const ring_mpi *mpi = (const ring_mpi *)backend;
  return ring_mpi_library_check(mpi->native->engine.peers->rank, error);
}

static void mpi_fail(ring_backend *backend, const ring_error *error) {
  ring_mpi *mpi = mpi_of(backend);
  ring_mpi_library_abandon(error);
  mpi->native->base.table->fail(&mpi->native->base, error);
}

/* No call of any rank is under way. MPI_Comm_free is collective, and may wait for ranks that come to it soon. */
static void mpi_end(ring_backend *backend) {
  ring_mpi *mpi = mpi_of(backend);
  if (!ring_mpi_library_enter()) return;
  mpi->driver->release(&mpi->comm);
  ring_mpi_library_leave();
  ring_mpi_library_closed();
  mpi->formed = false;
}

static void mpi_close(ring_backend *backend, bool torn) {
  ring_backend *native = &mpi_of(backend)->native->base;
  ring_mpi_free(mpi_of(backend), torn);
  native->table->close(native, torn);
}

static const ring_backend_table mpi_table = {.name = "mpi",
                                             .serves = mpi_serves,
                                             .run = mpi_run,
                                             .explain = mpi_explain,
                                             .check = mpi_check,
                                             .fail = mpi_fail,
                                             .end = mpi_end,
                                             .close = mpi_close};

ring_mpi *ring_mpi_alloc(ring_native *native) {
  ring_mpi *mpi = calloc(1, sizeof *mpi);
  if (mpi == NULL) return NULL;
  mpi->base.table = &mpi_table;
  mpi->native = native;
  ring_mpi_messages_init(&mpi->messages, native->engine.peers, &native->plans.selector);
  if (ring_mpi_scratch_init(&mpi->scratch, native->engine.peers->size) == RING_OK &&
      ring_outside_wait_init(&mpi->outside, &native->engine) == RING_OK)
    return mpi;
  ring_mpi_free(mpi, false);
  return NULL;
}

/* After a failure MPI may still read and write the scratch of a call: another rank can write there without any
 * call of this one. */
void ring_mpi_free(ring_mpi *mpi, bool torn) {
  if (torn) return;
  ring_outside_wait_fini(&mpi->outside);
  if (!mpi->formed) {
    ring_mpi_scratch_fini(&mpi->scratch);
    ring_mpi_messages_fini(&mpi->messages);
  }
  free(mpi);
}
