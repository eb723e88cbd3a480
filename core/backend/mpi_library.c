/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/mpi_library.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "backend/mpi_loader.h"
#include "base/background.h"
#include "base/error.h"
#include "base/platform.h"

#define LIBRARY_LEAVE_MS 100

typedef struct mpi_library {
  pthread_mutex_t loading;
  pthread_mutex_t preparing; /* may be held for as long as another rank is late */
  ring_mpi_loaded loaded;
  bool at_once;      /* threads may call MPI at the same time */
  atomic_bool ready; /* initialized, and its ops made */
  unsigned process;  /* that has made it ready */
  atomic_int inside; /* threads that call MPI: one at most, where threads do not at the same time */
  atomic_bool opens; /* a communicator */
  atomic_int formed; /* communicators that are not closed */
  atomic_int state;  /* LIBRARY_USED, or abandoned: */
  ring_error cause;
} mpi_library;

enum { LIBRARY_USED, LIBRARY_ABANDONS, LIBRARY_ABANDONED }; /* `cause` is valid in the last state */

static mpi_library library = {.loading = PTHREAD_MUTEX_INITIALIZER,
                              .preparing = PTHREAD_MUTEX_INITIALIZER};

/* ---- Loading ------------------------------------------------------------------------------ */

ring_status ring_mpi_library_load(int rank, const ring_mpi_driver **driver, ring_error *error) {
  char why[700] = "";
  pthread_mutex_lock(&library.loading);
  bool found =
      library.loaded.driver != NULL || ring_mpi_loader_find(&library.loaded, why, sizeof why);
  *driver = library.loaded.driver;
  pthread_mutex_unlock(&library.loading);
  if (found) return RING_OK;
  return ring_error_set(error, RING_UNSUPPORTED, rank, 0,
                        "rank %d has no MPI library: %s. Install the MPI of the launcher there, or "
                        "set " RING_MPI_LIBRARY_VARIABLE " to the path of its library",
                        rank, why);
}

uint64_t ring_mpi_library_version(void) {
  return library.loaded.version;
}

/* ---- Initializing ------------------------------------------------------------------------- */

static ring_status library_fail(int rank, const char *what, int code, ring_error *error) {
  char text[RING_MPI_TEXT];
  library.loaded.driver->explain(code, text);
  return ring_error_set(error, RING_SYSTEM, rank, 0, "rank %d: %s of %.200s failed: %.500s", rank,
                        what, library.loaded.path, text);
}

static ring_status library_finalized(int rank, ring_error *error) {
  return ring_error_set(error, RING_UNSUPPORTED, rank, 0,
                        "rank %d has finalized MPI, which starts once in a process: close the "
                        "communicator before MPI_Finalize",
                        rank);
}

/* Whether a launcher has set variables by which processes of MPI find each other. */
static bool library_has_launcher(void) {
  static const char *const prefixes[] = {"PMI_",  "PMIX_",   "OMPI_COMM_WORLD_", "I_MPI_HYDRA_",
                                         "PALS_", "MPIRUN_", "MV2_COMM_WORLD_"};
  extern char **environ;
  for (char **variable = environ; variable != NULL && *variable != NULL; variable++)
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
      if (strncmp(*variable, prefixes[i], strlen(prefixes[i])) == 0) return true;
  return false;
}

ring_status ring_mpi_library_launched(int rank, ring_error *error) {
  int initialized = 0, finalized = 0;
  int code = library.loaded.driver->state(&initialized, &finalized);
  if (code != 0) return library_fail(rank, "MPI_Initialized", code, error);
  if (initialized || library_has_launcher()) return RING_OK;
  return ring_error_set(error, RING_UNSUPPORTED, rank, 0,
                        "rank %d was not started by a launcher of MPI: start the ranks with the "
                        "mpirun, mpiexec or srun of their MPI library, or use the backend native",
                        rank);
}

static ring_status library_check_threads(int rank, bool ours, ring_error *error) {
  ring_mpi_threads threads;
  int code = library.loaded.driver->threads(&threads);
  if (code != 0) return library_fail(rank, "MPI_Query_thread", code, error);
  library.at_once = threads == RING_MPI_AT_ONCE;
  if (threads != RING_MPI_ONE_THREAD) return RING_OK;
  return ring_error_set(error, RING_UNSUPPORTED, rank, 0,
                        ours ? "the MPI library of rank %d was built for one thread: install one "
                               "that provides MPI_THREAD_MULTIPLE"
                             : "rank %d has initialized MPI for one thread only: call "
                               "MPI_Init_thread with MPI_THREAD_MULTIPLE there, or leave it to "
                               "the communicator",
                        rank);
}

/* Finalizes MPI when the process exits, if all ranks do so: another rank in MPI_Finalize, and this rank not, or
 * this one with a communicator that other ranks have left by a failure, would wait for ever. */
static void library_finalize(void) {
  if (library.process == ring_platform_process() && atomic_load(&library.state) == LIBRARY_USED &&
      atomic_load(&library.formed) == 0 && !library.loaded.driver->is_finalized())
    library.loaded.driver->finalize();
}

/* Makes MPI ready: initializes it where nothing has, and checks which threads may call it. */
static ring_status library_prepare(int rank, ring_error *error) {
  const ring_mpi_driver *driver = library.loaded.driver;
  int initialized = 0, finalized = 0;
  bool inherited =
      library.ready ? library.process != ring_platform_process() : ring_platform_forked();
  int code = driver->state(&initialized, &finalized);
  if (code != 0) return library_fail(rank, "MPI_Initialized", code, error);
  if (finalized) return library_finalized(rank, error);
  if (initialized && inherited)
    return ring_error_set(error, RING_UNSUPPORTED, rank, 0,
                          "rank %d is a forked child, and MPI may be that of its parent, which "
                          "works there only: start the rank as a process of its own",
                          rank);
  if (library.ready) return RING_OK;
  library.process = ring_platform_process();
  if (!initialized) {
    code = driver->init();
    if (code != 0) return library_fail(rank, "MPI_Init_thread", code, error);
    atexit(library_finalize);
  }
  ring_status status = library_check_threads(rank, !initialized, error);
  if (status != RING_OK) return status;
  code = driver->make_ops();
  return code == 0 ? RING_OK : library_fail(rank, "MPI_Op_create", code, error);
}

ring_status ring_mpi_library_init(int rank, ring_error *error) {
  pthread_mutex_lock(&library.preparing);
  ring_status status = library_prepare(rank, error);
  if (status == RING_OK) library.ready = true;
  pthread_mutex_unlock(&library.preparing);
  return status;
}

/* ---- Calling ------------------------------------------------------------------------------ */

/* A thread that abandons MPI sets `state` and then reads `inside`; others do the opposite. So no thread is missed. */
bool ring_mpi_library_try(void) {
  if (library.at_once)
    atomic_fetch_add(&library.inside, 1);
  else if (atomic_exchange(&library.inside, 1) == 1)
    return false;
  if (atomic_load(&library.state) == LIBRARY_USED) return true;
  ring_mpi_library_leave();
  return false;
}

bool ring_mpi_library_enter(void) {
  while (!ring_mpi_library_try()) {
    if (atomic_load(&library.state) != LIBRARY_USED) return false;
    poll(NULL, 0, 1);
  }
  return true;
}

void ring_mpi_library_leave(void) {
  if (library.at_once)
    atomic_fetch_sub(&library.inside, 1);
  else
    atomic_store_explicit(&library.inside, 0, memory_order_release);
}

/* Has MPI move what this rank has sent. */
static void library_progress(void) {
  if (library.process != ring_platform_process() || !ring_mpi_library_try()) return;
  if (!library.loaded.driver->is_finalized()) library.loaded.driver->progress();
  ring_mpi_library_leave();
}

bool ring_mpi_library_begin_opening(void) {
  return !atomic_exchange(&library.opens, true);
}

void ring_mpi_library_end_opening(void) {
  atomic_store(&library.opens, false);
}

void ring_mpi_library_formed(void) {
  atomic_fetch_add(&library.formed, 1);
  ring_background_set(library_progress);
}

void ring_mpi_library_closed(void) {
  if (atomic_fetch_sub(&library.formed, 1) > 1) return;
  ring_background_set(NULL);
  if (atomic_load(&library.formed) > 0) ring_background_set(library_progress); /* formed just now */
}

/* ---- Abandoning --------------------------------------------------------------------------- */

void ring_mpi_library_abandon(const ring_error *cause) {
  int used = LIBRARY_USED;
  ring_background_set(NULL);
  if (atomic_compare_exchange_strong(&library.state, &used, LIBRARY_ABANDONS)) {
    library.cause = *cause;
    atomic_store(&library.state, LIBRARY_ABANDONED);
  }
  for (int i = 0; i < LIBRARY_LEAVE_MS && atomic_load(&library.inside) > 0; i++) poll(NULL, 0, 1);
}

ring_status ring_mpi_library_check(int rank, ring_error *error) {
  int state = atomic_load(&library.state);
  if (state == LIBRARY_USED)
    return library.ready && library.loaded.driver->is_finalized() ? library_finalized(rank, error)
                                                                  : RING_OK;
  return ring_error_set(error, RING_ABORTED, rank, 0,
                        "rank %d does not use MPI any more, because a call that failed may still "
                        "use its buffers: end the process. The failure was: %.700s",
                        rank,
                        state == LIBRARY_ABANDONED ? library.cause.message : "found a moment ago");
}
