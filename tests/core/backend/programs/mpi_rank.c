/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank that an mpirun has started: plays the scene that its argument names, and ends with 0 when all came as
 * it should. test_mpi.c starts the ranks.
 */
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "mpi_scenes.h"
#include "ranks.h"

ring_status open_job(const char *backend, double call_timeout, ring_comm **comm,
                     ring_error *error) {
  ring_options options = RING_OPTIONS_INIT;
  options.backend = backend;
  options.job = backend;
  options.call_timeout = call_timeout;
  options.timeout = 60;
  return ring_comm_open(&options, comm, error);
}

ring_comm *open_backend(const char *backend, double call_timeout) {
  ring_comm *comm;
  ring_error error;
  ring_status status = open_job(backend, call_timeout, &comm, &error);
  if (status != RING_OK) fprintf(stderr, "open: %s\n", error.message);
  CHECK_INT(status, RING_OK);
  return comm;
}

/* Opens a communicator of MPI, which a rank may not do. */
static void refuse_open(const char *text) {
  ring_comm *comm;
  ring_error error;
  CHECK_INT(open_job("mpi", 20, &comm, &error), RING_UNSUPPORTED);
  CHECK(comm == NULL);
  CHECK_CONTAINS(error.message, text);
}

/* A second communicator of a process, after the first one is gone, and one in a forked child. */
static void scene_again(void) {
  int status;
  for (int round = 0; round < 2; round++) {
    ring_comm *comm = open_backend("mpi", 60);
    CHECK_INT(ring_barrier(comm), RING_OK);
    close_rank(comm);
  }
  pid_t child = fork_for(LIMIT);
  if (child == 0) {
    refuse_open("is a forked child");
    _exit(0);
  }
  CHECK_INT(waitpid(child, &status, 0), child);
  CHECK_INT(status, 0);
}

/* open fails alike on all ranks. Rank 1 may have another library, or another value of a variable. */
static void scene_refused(const char *other) {
  ring_comm *comm;
  const char *open_mpi = getenv("OMPI_COMM_WORLD_RANK"), *mpich = getenv("PMI_RANK");
  const char *rank = open_mpi != NULL ? open_mpi : mpich;
  CHECK(rank != NULL);
  if (other != NULL && strcmp(rank, "1") == 0 && strchr(other, '=') != NULL)
    CHECK_INT(putenv((char *)(uintptr_t)other), 0);
  else if (other != NULL && strcmp(rank, "1") == 0)
    CHECK_INT(setenv("SPARKRING_MPI_LIBRARY", other, 1), 0);
  ring_error error;
  ring_status status = open_job("mpi", 20, &comm, &error);
  printf("%s at %d: %s\n", ring_status_name(status), error.rank, error.message);
  CHECK(comm == NULL);
  fflush(NULL);
  _exit(0);
}

static void open_unlaunched(int rank, int size, void *shared) {
  ring_comm *comm;
  ring_error error;
  ring_options options = rank_options(rank, size);
  (void)shared;
  options.backend = "mpi";
  CHECK_INT(ring_comm_open(&options, &comm, &error), RING_UNSUPPORTED);
  CHECK_CONTAINS(error.message, "rank 0 was not started by a launcher of MPI");
}

/* Without a launcher MPI_Init might end the process. */
static void scene_unlaunched(void) {
  run_ranks(2, open_unlaunched, NULL);
}

static void find(void *library, const char *name, void *function) {
  void *found = dlsym(library, name);
  CHECK(found != NULL);
  memcpy(function, &found, sizeof found);
}

/* The program has initialized MPI, for one thread or for several, and finalizes it. Its library is found wherever the
 * program has loaded it, under any name. */
static void scene_initialized(const char *library_name, const char *threads) {
  bool several = atoi(threads) > 0;
  void *library = dlopen(library_name, RTLD_NOW | (several ? RTLD_GLOBAL : RTLD_LOCAL));
  if (library == NULL) fprintf(stderr, "%s\n", dlerror());
  CHECK(library != NULL);
  int (*init)(int *, char ***, int, int *), (*finalize)(void), (*is_finalized)(int *), provided, is;
  find(library, "MPI_Init_thread", &init);
  find(library, "MPI_Finalize", &finalize);
  find(library, "MPI_Finalized", &is_finalized);
  CHECK_INT(init(NULL, NULL, atoi(threads), &provided), 0);
  ring_comm *comm;
  ring_error error;
  ring_status status = open_job("mpi", 20, &comm, &error);
  if (several) {
    if (status != RING_OK) fprintf(stderr, "%s\n", error.message);
    CHECK_INT(status, RING_OK);
    check_turns(comm);
    close_rank(comm);
  } else {
    CHECK_INT(status, RING_UNSUPPORTED);
    CHECK_CONTAINS(error.message, "for one thread only");
  }
  CHECK_INT(is_finalized(&is), 0);
  CHECK_INT(is, 0);
  CHECK_INT(finalize(), 0);
  if (several) refuse_open("has finalized MPI");
}

static const struct {
  const char *name;
  void (*play)(void);
} scenes[] = {{"again", scene_again},
              {"ahead", scene_ahead},
              {"killed", scene_killed},
              {"amid", scene_amid},
              {"late", scene_late},
              {"finished", scene_finished},
              {"aborted", scene_aborted},
              {"stopped", scene_stopped},
              {"interrupted", scene_interrupted},
              {"unlaunched", scene_unlaunched}};

int main(int argc, char **argv) {
  CHECK(argc > 1);
  const char *scene = argv[1], *argument = argc > 2 ? argv[2] : NULL;
  alarm(LIMIT);
  atexit(publish_report);
  for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
    if (strcmp(scene, scenes[i].name) != 0) continue;
    scenes[i].play();
    return 0;
  }
  if (strcmp(scene, "compare") == 0)
    scene_compare(argument != NULL);
  else if (strcmp(scene, "refused") == 0)
    scene_refused(argument);
  else if (strcmp(scene, "initialized") == 0)
    scene_initialized(argument, argv[3]);
  else
    scene_differ(scene);
  return 0;
}
