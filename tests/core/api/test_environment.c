/* SPDX-License-Identifier: Apache-2.0
 *
 * What each starter's variables mean, and the text of every complaint. Each test begins with none
 * of the variables set.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/environment.h"
#include "auth/token.h"
#include "check.h"
#include "variables.h"

/* Sets exactly these variables: name, value, name, value, ..., NULL. */
static void set_only(const char *const *pairs) {
  for (size_t i = 0; i < VARIABLES; i++) unsetenv(variables[i]);
  for (; *pairs != NULL; pairs += 2) CHECK(setenv(pairs[0], pairs[1], 1) == 0);
}

#define SET(...) set_only((const char *const[]){__VA_ARGS__, NULL})
#define SET_NOTHING() set_only((const char *const[]){NULL})

static ring_environment read_whole(void) {
  ring_environment environment;
  ring_error error = {0};
  ring_status status = ring_environment_read(&environment, &error);
  if (status != RING_OK) fprintf(stderr, "%s\n", error.message);
  CHECK_INT(status, RING_OK);
  return environment;
}

static void check_read(const char *source, int rank, int size, const char *root, const char *job) {
  ring_environment environment = read_whole();
  CHECK(source == NULL ? environment.source == NULL : environment.source != NULL);
  if (source != NULL) CHECK_CONTAINS(environment.source, source);
  CHECK_INT(environment.rank, rank);
  CHECK_INT(environment.size, size);
  CHECK_CONTAINS(environment.root_address, root);
  CHECK_INT(strlen(environment.root_address), strlen(root));
  CHECK_CONTAINS(environment.job, job);
  CHECK_INT(strlen(environment.job), strlen(job));
  ring_environment_free(&environment);
}

static void check_fails(const char *why) {
  ring_environment environment;
  ring_error error = {0};
  CHECK_INT(ring_environment_read(&environment, &error), RING_INVALID);
  CHECK_CONTAINS(error.message, why);
  CHECK_INT(error.rank, -1);
  CHECK(environment.token == NULL && environment.addresses == NULL);
  CHECK_INT(ring_environment_read(&environment, NULL), RING_INVALID);
}

/* ---- Sources ------------------------------------------------------------------------------ */

static void test_nothing_is_a_world_of_one(void) {
  SET_NOTHING();
  check_read(NULL, 0, 1, "127.0.0.1", "");
}

static void test_launcher(void) {
  SET("SPARKRING_RANK", "2", "SPARKRING_SIZE", "3", "SPARKRING_ADDRESSES", "a,b:7,[::1]:80",
      "SPARKRING_TOKEN", "00ff", "SPARKRING_JOB", "night", "SPARKRING_PORTS", "4000-4100",
      "SPARKRING_TIMEOUT", "2.5");
  ring_environment environment = read_whole();
  CHECK_CONTAINS(environment.source, "sparkring-run");
  CHECK_INT(environment.rank, 2);
  CHECK_INT(environment.size, 3);
  CHECK_INT(environment.address_count, 3);
  CHECK(strcmp(environment.addresses[0], "a") == 0);
  CHECK(strcmp(environment.addresses[1], "b:7") == 0);
  CHECK(strcmp(environment.addresses[2], "[::1]:80") == 0);
  CHECK(strcmp(environment.root_address, "") == 0);
  CHECK_INT(environment.token_length, 4);
  CHECK(memcmp(environment.token, "00ff", 4) == 0);
  CHECK(strcmp(environment.job, "night") == 0);
  CHECK_INT(environment.port_first, 4000);
  CHECK_INT(environment.port_last, 4100);
  CHECK(environment.timeout == 2.5);
  ring_environment_free(&environment);
  CHECK(environment.token == NULL && environment.addresses == NULL);
  ring_environment_free(&environment);
}

static void test_launcher_with_root_address(void) {
  SET("SPARKRING_RANK", "0", "SPARKRING_SIZE", "2", "SPARKRING_ROOT_ADDRESS", "head.example:99");
  check_read("sparkring-run", 0, 2, "head.example", "");
  SET("SPARKRING_RANK", "0", "SPARKRING_SIZE", "1");
  check_read("sparkring-run", 0, 1, "127.0.0.1", "");
}

static void test_open_mpi(void) {
  SET("OMPI_COMM_WORLD_RANK", "1", "OMPI_COMM_WORLD_SIZE", "4", "OMPI_COMM_WORLD_LOCAL_SIZE", "4",
      "OMPI_MCA_ess_base_jobid", "3141", "PMIX_NAMESPACE", "other");
  check_read("Open MPI", 1, 4, "127.0.0.1", "3141");
  SET("OMPI_COMM_WORLD_RANK", "1", "OMPI_COMM_WORLD_SIZE", "4", "OMPI_COMM_WORLD_LOCAL_SIZE", "2",
      "MASTER_ADDR", "n7", "PMIX_NAMESPACE", "prterun-n7@1");
  check_read("Open MPI", 1, 4, "n7", "prterun-n7@1");
}

static void test_mpich(void) {
  SET("PMI_RANK", "3", "PMI_SIZE", "4", "MPI_LOCALNRANKS", "4");
  check_read("MPICH", 3, 4, "127.0.0.1", "");
  SET("PMI_RANK", "3", "PMI_SIZE", "4", "SPARKRING_ADDRESSES", "a,a,b,b");
  check_read("MPICH", 3, 4, "", "");
}

static void test_several_hosts_need_a_name(void) {
  SET("OMPI_COMM_WORLD_RANK", "1", "OMPI_COMM_WORLD_SIZE", "4", "OMPI_COMM_WORLD_LOCAL_SIZE", "2");
  check_fails("Open MPI started 4 ranks, but names no host of rank 0: set "
              "SPARKRING_ROOT_ADDRESS or MASTER_ADDR to its host");
  SET("PMI_RANK", "1", "PMI_SIZE", "4");
  check_fails("MPICH started 4 ranks, but names no host of rank 0");
  SET("SPARKRING_RANK", "1", "SPARKRING_SIZE", "4");
  check_fails("sparkring-run started 4 ranks, but names no host of rank 0");
  SET("RANK", "1", "WORLD_SIZE", "4");
  check_fails("torchrun started 4 ranks");
  SET("SLURM_PROCID", "1", "SLURM_NTASKS", "4", "SLURM_STEP_ID", "0");
  check_fails("Slurm started 4 ranks");
}

static void test_torchrun(void) {
  SET("RANK", "5", "WORLD_SIZE", "8", "MASTER_ADDR", "10.1.1.1", "MASTER_PORT", "29500",
      "TORCHELASTIC_RUN_ID", "run", "TORCHELASTIC_RESTART_COUNT", "2");
  check_read("torchrun", 5, 8, "10.1.1.1", "run:29500:2");
  SET("RANK", "0", "WORLD_SIZE", "1");
  check_read("torchrun", 0, 1, "127.0.0.1", "::");
}

static void test_slurm(void) {
  SET("SLURM_PROCID", "5", "SLURM_NTASKS", "8", "SLURM_STEP_ID", "0", "SLURM_JOB_ID", "77",
      "SLURM_STEP_NODELIST", "gpu[003-010,12],cpu1", "SLURM_JOB_NODELIST", "wrong");
  check_read("Slurm", 5, 8, "gpu003", "77.0");
  SET("SLURM_PROCID", "5", "SLURM_NTASKS", "8", "SLURM_STEP_ID", "3", "SLURM_JOB_ID", "77",
      "SLURM_JOB_NODELIST", "a,b");
  check_read("Slurm", 5, 8, "a", "77.3");
}

static void check_first_node(const char *list, const char *node) {
  SET("SLURM_PROCID", "0", "SLURM_NTASKS", "2", "SLURM_STEP_ID", "0", "SLURM_JOB_ID", "1",
      "SLURM_STEP_NODELIST", list);
  check_read("Slurm", 0, 2, node, "1.0");
}

static void test_slurm_node_lists(void) {
  check_first_node("n[1-2]x[3-4]", "n1x3");
  check_first_node("n[7]", "n7");
  check_first_node("n[8,1-3].dc,other", "n8.dc");
  check_first_node("[10-12]", "10");
  check_first_node("host", "host");
  static const char *const bad[] = {"", "n[", "n[]", "n[1-2", "n[,3]", ",a"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    SET("SLURM_PROCID", "0", "SLURM_NTASKS", "2", "SLURM_STEP_ID", "0", "SLURM_STEP_NODELIST",
        bad[i]);
    check_fails("which is no list of nodes: set SPARKRING_ROOT_ADDRESS");
  }
  SET("SLURM_PROCID", "0", "SLURM_NTASKS", "2", "SLURM_STEP_ID", "0", "SLURM_STEP_NODELIST", "a b");
  check_fails("SLURM_STEP_NODELIST: the address \"a b\" has whitespace");
}

static void test_slurm_counts_only_inside_a_step(void) {
  SET("SLURM_PROCID", "0", "SLURM_NTASKS", "8", "SLURM_JOB_ID", "77", "SLURM_JOB_NODELIST", "a,b");
  check_read(NULL, 0, 1, "127.0.0.1", "");
  SET("SLURM_NTASKS", "8", "SLURM_STEP_ID", "0", "SLURM_JOB_NODELIST", "a,b");
  check_read(NULL, 0, 1, "127.0.0.1", "");
  static const char *const steps[] = {"batch", "interactive", "4294967290", "4294967291", ""};
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    SET("SLURM_PROCID", "0", "SLURM_NTASKS", "8", "SLURM_STEP_ID", steps[i], "SLURM_JOB_NODELIST",
        "a,b");
    check_read(NULL, 0, 1, "127.0.0.1", "");
  }
}

static void test_srun_with_pmi_finds_its_first_node(void) {
  SET("PMI_RANK", "1", "PMI_SIZE", "2", "SLURM_PROCID", "1", "SLURM_NTASKS", "2", "SLURM_STEP_ID",
      "4", "SLURM_JOB_ID", "9", "SLURM_STEP_NODELIST", "n[5-6]");
  check_read("MPICH", 1, 2, "n5", "9.4");
  SET("PMI_RANK", "1", "PMI_SIZE", "4", "SLURM_PROCID", "1", "SLURM_NTASKS", "2", "SLURM_STEP_ID",
      "4", "SLURM_STEP_NODELIST", "n[5-6]");
  check_fails("MPICH started 4 ranks");
}

static void test_order_of_sources(void) {
  SET("SPARKRING_RANK", "0", "SPARKRING_SIZE", "1", "OMPI_COMM_WORLD_RANK", "1",
      "OMPI_COMM_WORLD_SIZE", "2", "RANK", "2", "WORLD_SIZE", "3");
  check_read("sparkring-run", 0, 1, "127.0.0.1", "");
  SET("OMPI_COMM_WORLD_RANK", "1", "OMPI_COMM_WORLD_SIZE", "2", "PMI_RANK", "0", "PMI_SIZE", "5",
      "SPARKRING_ROOT_ADDRESS", "r");
  check_read("Open MPI", 1, 2, "r", "");
  SET("PMI_RANK", "1", "PMI_SIZE", "2", "RANK", "0", "WORLD_SIZE", "5", "MASTER_ADDR", "m");
  check_read("MPICH", 1, 2, "m", "");
  SET("RANK", "1", "WORLD_SIZE", "2", "MASTER_ADDR", "m", "SLURM_PROCID", "0", "SLURM_NTASKS", "1",
      "SLURM_STEP_ID", "0");
  check_read("torchrun", 1, 2, "m", "::");
}

/* ---- What counts with every source -------------------------------------------------------- */

static void test_shared_variables_without_a_source(void) {
  SET("SPARKRING_TOKEN", "secret", "SPARKRING_PORTS", "1-65535", "SPARKRING_TIMEOUT", "90",
      "SPARKRING_JOB", "j");
  ring_environment environment = read_whole();
  CHECK(environment.source == NULL);
  CHECK_INT(environment.token_length, 6);
  CHECK_INT(environment.port_first, 1);
  CHECK_INT(environment.port_last, 65535);
  CHECK(environment.timeout == 90);
  CHECK(strcmp(environment.job, "j") == 0);
  ring_environment_free(&environment);
}

static void test_shared_variables_beside_other_sources(void) {
  SET("RANK", "0", "WORLD_SIZE", "2", "MASTER_ADDR", "m", "SPARKRING_ROOT_ADDRESS", "[fe80::1]:5",
      "SPARKRING_JOB", "mine", "TORCHELASTIC_RUN_ID", "run");
  check_read("torchrun", 0, 2, "fe80::1", "mine");
}

static void test_long_jobs(void) {
  char name[201];
  memset(name, 'a', 200);
  strcpy(name + 196, "tail");
  SET("OMPI_COMM_WORLD_RANK", "0", "OMPI_COMM_WORLD_SIZE", "1", "PMIX_NAMESPACE", name);
  check_read("Open MPI", 0, 1, "127.0.0.1", name + 200 - 127);
  SET("SPARKRING_JOB", name);
  check_fails("which is longer than 127 bytes: shorten it");
}

/* ---- Bad input ---------------------------------------------------------------------------- */

static void test_half_a_pair(void) {
  SET("SPARKRING_RANK", "0");
  check_fails("SPARKRING_RANK is set but SPARKRING_SIZE is not: set both, or unset SPARKRING_RANK");
  SET("OMPI_COMM_WORLD_SIZE", "2");
  check_fails("OMPI_COMM_WORLD_SIZE is set but OMPI_COMM_WORLD_RANK is not");
  SET("WORLD_SIZE", "2");
  check_fails("WORLD_SIZE is set but RANK is not");
  SET("PMI_RANK", "2");
  check_fails("PMI_RANK is set but PMI_SIZE is not");
}

static void test_numbers(void) {
  static const char *const bad[] = {"", "x", "-1", "+1", " 1", "1 ", "1.0", "0x1", "99999999999"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    SET("SPARKRING_RANK", bad[i], "SPARKRING_SIZE", "2", "SPARKRING_ROOT_ADDRESS", "a");
    check_fails("which is not a whole number: correct or unset it");
  }
  SET("SPARKRING_RANK", "two", "SPARKRING_SIZE", "2");
  check_fails("SPARKRING_RANK is \"two\", which");
  SET("PMI_RANK", "0", "PMI_SIZE", "1\n");
  check_fails("PMI_SIZE is \"1?\", which is not a whole number");
  SET("PMI_RANK", "0", "PMI_SIZE", "2", "MPI_LOCALNRANKS", "all");
  check_fails("MPI_LOCALNRANKS is \"all\", which is not a whole number");
  SET("SLURM_PROCID", "0", "SLURM_NTASKS", "many", "SLURM_STEP_ID", "0");
  check_fails("SLURM_NTASKS is \"many\", which is not a whole number");
}

static void test_ranks_outside_the_size(void) {
  SET("RANK", "4", "WORLD_SIZE", "4", "MASTER_ADDR", "m");
  check_fails("RANK is 4, but WORLD_SIZE is 4: ranks go from 0 to 3");
  SET("SPARKRING_RANK", "0", "SPARKRING_SIZE", "0");
  check_fails("SPARKRING_SIZE is \"0\", but the number of ranks must be 1 or more");
}

static void test_addresses(void) {
  SET("SPARKRING_RANK", "0", "SPARKRING_SIZE", "3", "SPARKRING_ADDRESSES", "a,b");
  check_fails("SPARKRING_ADDRESSES has 2 entries, but the size is 3");
  SET("SPARKRING_ADDRESSES", "a,b");
  check_fails("SPARKRING_ADDRESSES has 2 entries, but the size is 1");
  SET("SPARKRING_RANK", "0", "SPARKRING_SIZE", "2", "SPARKRING_ADDRESSES", "a,");
  check_fails("SPARKRING_ADDRESSES: an address is empty: write host or host:port");
  SET("SPARKRING_RANK", "0", "SPARKRING_SIZE", "2", "SPARKRING_ADDRESSES", "a, b");
  check_fails("SPARKRING_ADDRESSES: the address \" b\" has whitespace");
  SET("SPARKRING_ROOT_ADDRESS", "a:b");
  check_fails("SPARKRING_ROOT_ADDRESS: the address \"a:b\" has a port that is not a number");
  SET("RANK", "0", "WORLD_SIZE", "2", "MASTER_ADDR", "");
  check_fails("MASTER_ADDR: an address is empty");
}

static void test_ports(void) {
  static const char *const malformed[] = {"", "5000", "a-b", "5-", "-5", "5-6-7", "00000005-6"};
  for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
    SET("SPARKRING_PORTS", malformed[i]);
    check_fails("which is not a range: write first-last, as in 21000-21999");
  }
  static const char *const outside[] = {"0-5", "6-5", "5-65536", "70000-70001"};
  for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
    SET("SPARKRING_PORTS", outside[i]);
    check_fails("but ports go from 1 to 65535, the smaller one first");
  }
  SET("SPARKRING_PORTS", "6-5");
  check_fails("SPARKRING_PORTS is \"6-5\", but");
}

static void test_timeouts(void) {
  static const char *const bad[] = {"",    "0",  "0.0", "-1",    "1e3",        "nan", "inf",
                                    "1,5", " 1", "1s",  "1.2.3", "1000000000", "."};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    SET("SPARKRING_TIMEOUT", bad[i]);
    check_fails("which is not a number of seconds, more than 0 and less than 1e9");
  }
  SET("SPARKRING_TIMEOUT", ".5");
  ring_environment environment = read_whole();
  CHECK(environment.timeout == 0.5);
  ring_environment_free(&environment);
}

static void test_the_token_stays_out_of_errors(void) {
  SET("SPARKRING_TOKEN", "");
  check_fails("SPARKRING_TOKEN is empty: give it at least 16 random bytes, or unset it");
  SET("SPARKRING_TOKEN", "hush", "SPARKRING_RANK", "9", "SPARKRING_SIZE", "x");
  ring_environment environment;
  ring_error error = {0};
  CHECK_INT(ring_environment_read(&environment, &error), RING_INVALID);
  CHECK(strstr(error.message, "hush") == NULL);
  SET("SPARKRING_TOKEN_FILE", "hush"); /* a mistake: not the name of a file */
  CHECK_INT(ring_environment_read(&environment, &error), RING_INVALID);
  CHECK(strstr(error.message, "hush") == NULL);
}

/* ---- A token in a file -------------------------------------------------------------------- */

static void write_token(const char *path, const char *bytes, size_t length, mode_t mode) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  CHECK(fd >= 0);
  CHECK_INT(write(fd, bytes, length), length);
  CHECK_INT(fchmod(fd, mode), 0);
  CHECK_INT(close(fd), 0);
}

static void check_token(const char *bytes, size_t length) {
  ring_environment environment = read_whole();
  CHECK_INT(environment.token_length, length);
  CHECK(memcmp(environment.token, bytes, length) == 0);
  ring_environment_free(&environment);
}

static void test_a_token_in_a_file(void) {
  char path[] = "/tmp/sparkring-token-XXXXXX", large[RING_TOKEN_FILE_BYTES + 2];
  int fd = mkstemp(path);
  CHECK(fd >= 0 && close(fd) == 0);
  SET("SPARKRING_TOKEN_FILE", path);
  check_fails("which is empty: write at least 16 random bytes to it");
  write_token(path, "one line\n", 9, 0600);
  check_token("one line", 8);
  write_token(path, "\0\1two\n\r\n", 8, 0440);
  check_token("\0\1two\n", 6);
  memset(large, 'x', sizeof large);
  write_token(path, large, RING_TOKEN_FILE_BYTES, 0600);
  check_token(large, RING_TOKEN_FILE_BYTES);
  write_token(path, large, RING_TOKEN_FILE_BYTES + 1, 0600);
  check_fails("which has more than 4096 bytes: it is not a token");
  CHECK_INT(unlink(path), 0);
  check_fails("SPARKRING_TOKEN_FILE names a file that cannot be opened: No such file");
}

static void test_a_file_that_is_no_secret(void) {
  static const mode_t modes[] = {0604, 0602, 0620, 0777};
  char path[] = "/tmp/sparkring-token-XXXXXX";
  int fd = mkstemp(path);
  CHECK(fd >= 0 && close(fd) == 0);
  SET("SPARKRING_TOKEN_FILE", path);
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    write_token(path, "hush", 4, modes[i]);
    check_fails("which others may read or change: chmod 600 it, and draw a new token");
  }
  if (geteuid() == 0) { /* only root can give a file away */
    write_token(path, "hush", 4, 0600);
    CHECK_INT(chown(path, 1, 1), 0);
    check_fails("which belongs to another user");
  }
  SET("SPARKRING_TOKEN_FILE", "/tmp");
  check_fails("SPARKRING_TOKEN_FILE is \"/tmp\", which is not a regular file");
  SET("SPARKRING_TOKEN_FILE", path, "SPARKRING_TOKEN", "x");
  check_fails("SPARKRING_TOKEN and SPARKRING_TOKEN_FILE are both set: unset one of them");
  CHECK_INT(unlink(path), 0);
}

int main(void) {
  RUN(test_a_token_in_a_file);
  RUN(test_a_file_that_is_no_secret);
  RUN(test_nothing_is_a_world_of_one);
  RUN(test_launcher);
  RUN(test_launcher_with_root_address);
  RUN(test_open_mpi);
  RUN(test_mpich);
  RUN(test_several_hosts_need_a_name);
  RUN(test_torchrun);
  RUN(test_slurm);
  RUN(test_slurm_node_lists);
  RUN(test_slurm_counts_only_inside_a_step);
  RUN(test_srun_with_pmi_finds_its_first_node);
  RUN(test_order_of_sources);
  RUN(test_shared_variables_without_a_source);
  RUN(test_shared_variables_beside_other_sources);
  RUN(test_long_jobs);
  RUN(test_half_a_pair);
  RUN(test_numbers);
  RUN(test_ranks_outside_the_size);
  RUN(test_addresses);
  RUN(test_ports);
  RUN(test_timeouts);
  RUN(test_the_token_stays_out_of_errors);
  return 0;
}
