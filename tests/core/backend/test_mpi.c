/* SPDX-License-Identifier: Apache-2.0
 *
 * The backend of MPI under real launchers: Open MPI, MPICH, and a library of the MPI 5 ABI. Those that scripts/setup
 * installs must be there, those of Debian may. The ranks are programs/mpi_rank.c. Every collective gives the bits that
 * `native` gives, over messages and by MPI's own collectives, and failures name the rank. With --all each scene runs
 * under each library, at 2 to 4 ranks; else each runs under one Open MPI and one MPICH at least, and with sanitizers
 * under one of two that scripts/setup installs.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "ranks.h"

enum { ARGUMENTS = 32, OUTPUT = 1 << 16, SECONDS = 110 };

typedef struct installation {
  const char *name;
  const char *launcher; /* a path */
  const char *options;  /* of the launcher, with spaces between them */
  const char *library;  /* a path for SPARKRING_MPI_LIBRARY; "": as the loader finds it */
  const char *loaded;   /* what a program passes to dlopen */
  const char *serialized;
  const char *keeps; /* option with which the launcher leaves ranks alone when one is killed */
  bool installed;    /* by scripts/setup */
} installation;

static const installation installations[] = {
    {"Open MPI 4", MPI_OPEN_MPI, "--allow-run-as-root --oversubscribe", "", "libmpi.so.40", "2",
     "--enable-recovery", false},
    {"MPICH 4", MPI_MPICH, "", "", "libmpich.so.12", "2", "-disable-auto-cleanup", false},
    {"MPICH 5, MPI 5 ABI", MPI_STANDARD "/bin/mpiexec", "", MPI_STANDARD "/lib/libmpi_abi.so.1",
     MPI_STANDARD "/lib/libmpi_abi.so.1", "2048", "-disable-auto-cleanup", true},
    {"MPICH 5", MPI_STANDARD "/bin/mpiexec", "", MPI_STANDARD "/lib/libmpi.so.12",
     MPI_STANDARD "/lib/libmpi.so.12", "2", "-disable-auto-cleanup", true},
    {"Open MPI 5", MPI_OPEN_MPI_5 "/bin/mpirun",
     "--allow-run-as-root --map-by :oversubscribe --bind-to none",
     MPI_OPEN_MPI_5 "/lib/libmpi.so.40", MPI_OPEN_MPI_5 "/lib/libmpi.so.40", "2",
     "--enable-recovery", true},
};
enum { INSTALLATIONS = sizeof installations / sizeof *installations };

static char output[OUTPUT];

/* Splits at spaces. */
static int add_words(char **arguments, int count, char *words) {
  for (char *rest = words, *word; (word = strsep(&rest, " ")) != NULL;)
    if (*word != '\0') arguments[count++] = word;
  return count;
}

static void read_output(int fd) {
  size_t length = 0;
  ssize_t got;
  while ((got = read(fd, output + length, OUTPUT - 1 - length)) > 0) length += (size_t)got;
  output[length] = '\0';
}

/* Runs ranks in a scene, with the words of `scene`. Returns the status of the launcher; `output` has what all
 * printed. */
static int launch(const installation *mpi, const char *option, int size, const char *scene,
                  const char *library) {
  char options[256], words[256], number[16];
  char *arguments[ARGUMENTS] = {(char *)(uintptr_t)mpi->launcher};
  snprintf(options, sizeof options, "%s %s", mpi->options, option);
  snprintf(words, sizeof words, "%s", scene);
  snprintf(number, sizeof number, "%d", size);
  int count = add_words(arguments, 1, options), ends[2];
  arguments[count++] = (char *)(uintptr_t)"-n";
  arguments[count++] = number;
  arguments[count++] = (char *)(uintptr_t)MPI_RANK;
  add_words(arguments, count, words);
  CHECK_INT(pipe(ends), 0);
  pid_t child = fork_for(SECONDS);
  if (child == 0) {
    if (library[0] != '\0') setenv("SPARKRING_MPI_LIBRARY", library, 1);
    if (SPARKRING_SANITIZED) setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* MPI's */
    dup2(ends[1], 1);
    dup2(ends[1], 2);
    close(ends[0]);
    close(ends[1]);
    execv(mpi->launcher, arguments);
    _exit(127);
  }
  int status;
  close(ends[1]);
  read_output(ends[0]);
  close(ends[0]);
  CHECK_INT(waitpid(child, &status, 0), child);
  return status;
}

static void succeed(const installation *mpi, int size, const char *scene) {
  printf("  %s, %d ranks: %s\n", mpi->name, size, scene);
  fflush(stdout);
  int status = launch(mpi, "", size, scene, mpi->library);
  if (status != 0) fprintf(stderr, "%s\n", output);
  CHECK_INT(status, 0);
}

static char reports[] = "/tmp/mpi-reports-XXXXXX";

/* Reads and removes the report of a rank, which may outlive its launcher; "" where there is none. */
static void read_report(int rank, char *text, size_t capacity) {
  char path[64];
  snprintf(path, sizeof path, "%s/%d", reports, rank);
  for (int tries = 0; access(path, R_OK) != 0 && tries < 1000; tries++) usleep(20000);
  FILE *file = fopen(path, "r");
  size_t length = file != NULL ? fread(text, 1, capacity - 1, file) : 0;
  text[length] = '\0';
  if (file != NULL) fclose(file);
  unlink(path);
}

/* Checks that each rank other than `silent` reports a text, and another one behind it. */
static void expect_reports(int size, int silent, const char *text, const char *more) {
  for (int rank = 0; rank < size; rank++) {
    char report[1200];
    if (rank == silent) continue;
    read_report(rank, report, sizeof report);
    if (strstr(report, text) == NULL) fprintf(stderr, "rank %d; %s\n", rank, output);
    CHECK_CONTAINS(report, text);
    CHECK_CONTAINS(report, more);
  }
}

/* A rank may be silent: it is killed, or may or may not fail. */
static void fail(const installation *mpi, int size, const char *scene, int silent, const char *text,
                 const char *more) {
  printf("  %s, %d ranks: %s\n", mpi->name, size, scene);
  fflush(stdout);
  launch(mpi, mpi->keeps, size, scene, mpi->library);
  expect_reports(size, silent, text, more);
  char path[64];
  snprintf(path, sizeof path, "%s/%d", reports, silent);
  unlink(path);
}

/* ---- Tests -------------------------------------------------------------------------------- */

static bool all;
static const installation *tested;

static bool is_here(const installation *mpi) {
  return access(mpi->launcher, X_OK) == 0;
}

/* Whether the scene of that number runs under the library that is tested: under two, and with sanitizers under one. */
static bool is_due(int number) {
  int index = (int)(tested - installations);
  if (SPARKRING_SANITIZED && !all) return index == (number % 2 == 0 ? 2 : 4);
  return all || index == (number % 2 == 0 ? 0 : 4) || index == 1 + number % 3;
}

static void equals_native(void) {
  static const int sizes[INSTALLATIONS] = {3, 4, 2, 3, 2};
  for (int size = 2; size <= 4; size++)
    if (all || size == (SPARKRING_SANITIZED ? 2 : sizes[tested - installations]))
      succeed(tested, size, all ? "compare all" : "compare");
}

static void opens_again(void) {
  succeed(tested, 2, "again");
}

static void moves_data_while_it_waits(void) {
  succeed(tested, 3, "ahead");
}

static void reports_failures(void) {
  static const struct {
    const char *scene;
    int size, silent;
    const char *text, *more;
    bool own; /* by MPI's own collectives */
  } failures[] = {
      {"killed", 3, 1, "PEER_LOST at 1: rank 1 (127.0.0.1) was lost during allreduce(", "", false},
      {"late", 3, 1, "TIMEOUT at 1: rank ", "", false},
      {"finished", 3, -1, "TIMEOUT at -1: rank 0 waited ", "; not waiting), rank ", false},
      {"aborted", 3, -1, "ABORTED at 1: rank 1 (127.0.0.1) aborted ", ": enough", false},
      {"stopped", 3, -1, "ABORTED at 0: rank 0 (127.0.0.1) aborted ", ": enough", false},
      {"counts", 3, -1, "MISMATCH", "rank 1 called allreduce(count 1000", false},
      {"ops", 3, -1, "MISMATCH", "rank 1 called allreduce(count 10, int32, max)", false},
      {"collectives", 3, -1, "MISMATCH", "", false},
      {"interrupted", 2, 1, "ABORTED at 0: rank 0 was interrupted during allreduce(", "", false},
      {"amid", 3, 1, "PEER_LOST at 1: rank 1 (127.0.0.1) was lost during allreduce(", "", false},
      {"ops", 3, -1, "MISMATCH", "made different calls before close", true},
      {"killed", 3, 1, "PEER_LOST at 1: rank 1 (127.0.0.1) was lost during allreduce(", "", true},
      {"counts", 3, -1, "MISMATCH", "", true}};
  for (int i = 0; i < (int)(sizeof failures / sizeof *failures); i++) {
    if (!is_due(i)) continue;
    if (failures[i].own) CHECK_INT(setenv("SPARKRING_MPI_MESSAGES", "0", 1), 0);
    /* UCX ends a process whose peer is gone as it copies the memory of that process. */
    CHECK_INT(setenv("UCX_TLS", "^cma", 1), 0);
    fail(tested, failures[i].size, failures[i].scene, failures[i].silent, failures[i].text,
         failures[i].more);
    CHECK_INT(unsetenv("SPARKRING_MPI_MESSAGES"), 0);
    CHECK_INT(unsetenv("UCX_TLS"), 0);
  }
}

static void shares_mpi_with_the_program(void) {
  char scene[300];
  snprintf(scene, sizeof scene, "initialized %s %s", tested->loaded, tested->serialized);
  succeed(tested, 2, scene);
  snprintf(scene, sizeof scene, "initialized %s 0", tested->loaded);
  if (is_due(0)) succeed(tested, 2, scene);
}

static void refuses(const char *scene, const char *library, const char *text) {
  launch(tested, "", 2, scene, library);
  CHECK_CONTAINS(output, text);
  CHECK_CONTAINS(strstr(output, text) + 1, text); /* on both ranks */
}

static void refuses_what_differs(void) {
  char scene[300];
  const installation *other = NULL;
  if (!is_due(1)) return;
  refuses("refused", "/no/such/libmpi.so",
          "UNSUPPORTED at 0: rank 0 has no MPI library: /no/such/libmpi.so");
  refuses("refused", "libm.so.6",
          "UNSUPPORTED at 0: rank 0 has no MPI library: libm.so.6: it is neither");
  for (int i = 0; i < INSTALLATIONS; i++)
    if (&installations[i] != tested && is_here(&installations[i])) other = &installations[i];
  CHECK(other != NULL);
  snprintf(scene, sizeof scene, "refused %s", other->loaded);
  refuses(scene, tested->library,
          "UNSUPPORTED at 1: rank 1 (127.0.0.1) has another MPI library than rank 0");
  refuses("refused SPARKRING_MPI_MESSAGES=2", tested->library,
          "MISMATCH at 1: SPARKRING_MPI_MESSAGES is 2 on rank 1 (127.0.0.1), and 8 on rank 0");
}

static void refuses_without_launcher(void) {
  int status;
  pid_t child = fork_for(SECONDS);
  if (child == 0) {
    setenv("SPARKRING_MPI_LIBRARY", tested->loaded, 1);
    execl(MPI_RANK, MPI_RANK, "unlaunched", (char *)NULL);
    _exit(127);
  }
  CHECK_INT(waitpid(child, &status, 0), child);
  CHECK_INT(status, 0);
}

int main(int argc, char **argv) {
  char token[64];
  all = argc > 1 && strcmp(argv[1], "--all") == 0;
  snprintf(token, sizeof token, "token of test process %d", (int)getpid());
  CHECK_INT(setenv("SPARKRING_TOKEN", token, 1), 0);
  CHECK(mkdtemp(reports) != NULL);
  CHECK_INT(setenv("MPI_REPORTS", reports, 1), 0);
  for (int i = 0; i < INSTALLATIONS; i++) {
    tested = &installations[i];
    if (tested->installed) CHECK(is_here(tested));
    if (!is_here(tested) || (SPARKRING_SANITIZED && !all && i != 2 && i != 4)) continue;
    printf("%s\n", tested->name);
    RUN(equals_native);
    RUN(opens_again);
    RUN(moves_data_while_it_waits);
    RUN(reports_failures);
    RUN(shares_mpi_with_the_program);
    RUN(refuses_what_differs);
    RUN(refuses_without_launcher);
  }
  CHECK_INT(rmdir(reports), 0);
  return 0;
}
