/* SPDX-License-Identifier: Apache-2.0
 *
 * Environment variables: the input is a list of lines NAME=VALUE, of names that are read. What was
 * accepted makes sense, what was refused names a variable, and the token is in no message.
 */
#include "address.h"
#include "environment.h"
#include "input.h"

static const char *const names[] = {"SPARKRING_RANK",
                                    "SPARKRING_SIZE",
                                    "SPARKRING_ADDRESSES",
                                    "SPARKRING_TOKEN",
                                    "SPARKRING_JOB",
                                    "SPARKRING_PORTS",
                                    "SPARKRING_TIMEOUT",
                                    "SPARKRING_ROOT_ADDRESS",
                                    "SPARKRING_SHARED_MEMORY",
                                    "OMPI_COMM_WORLD_RANK",
                                    "OMPI_COMM_WORLD_SIZE",
                                    "OMPI_COMM_WORLD_LOCAL_SIZE",
                                    "PMI_RANK",
                                    "PMI_SIZE",
                                    "MPI_LOCALNRANKS",
                                    "RANK",
                                    "WORLD_SIZE",
                                    "MASTER_ADDR",
                                    "MASTER_PORT",
                                    "SLURM_PROCID",
                                    "SLURM_NTASKS",
                                    "SLURM_STEP_ID",
                                    "SLURM_JOB_ID",
                                    "SLURM_STEP_NODELIST",
                                    "SLURM_JOB_NODELIST",
                                    "TORCHELASTIC_RUN_ID",
                                    "TORCHELASTIC_RESTART_COUNT",
                                    "PMIX_NAMESPACE",
                                    "OMPI_MCA_ess_base_jobid"};
enum { NAMES = sizeof names / sizeof *names, TOKEN_TELLTALE = 6 };

static void set_line(char *line) {
  char *equals = strchr(line, '=');
  if (equals == NULL) return;
  *equals = '\0';
  for (int i = 0; i < NAMES; i++)
    if (strcmp(line, names[i]) == 0) setenv(line, equals + 1, 1);
}

static void check_read(const ring_environment *read) {
  char host[RING_HOST_BYTES];
  int port;
  FUZZ_PROMISE(read->size >= 1 && read->rank >= 0 && read->rank < read->size);
  FUZZ_PROMISE(read->address_count == 0 || read->address_count == read->size);
  for (int i = 0; i < read->address_count; i++)
    FUZZ_PROMISE(ring_address_parse(read->addresses[i], host, sizeof host, &port, NULL) == RING_OK);
  FUZZ_PROMISE(read->root_address[0] != '\0' || read->address_count > 0);
  FUZZ_PROMISE(strlen(read->job) < sizeof read->job);
  FUZZ_PROMISE(read->port_first >= 0 && read->port_first <= read->port_last);
  FUZZ_PROMISE(read->port_last <= 65535 && (read->port_first == 0) == (read->port_last == 0));
  FUZZ_PROMISE(read->timeout >= 0 && read->timeout < 1e9);
}

/* A token that another variable holds, too, or that words of a message are made of, proves
 * nothing. */
static bool is_telltale(const char *token) {
  if (strlen(token) < TOKEN_TELLTALE || strncmp(token, "\x01\x02", 2) != 0) return false;
  for (int i = 0; i < NAMES; i++) {
    const char *value = getenv(names[i]);
    if (value != NULL && value != token && strstr(value, token) != NULL) return false;
  }
  return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  input from = {bytes, length};
  ring_environment read;
  ring_error error;
  char *text = input_text(&from), *next = text;
  for (int i = 0; i < NAMES; i++) unsetenv(names[i]);
  while (next != NULL) set_line(strsep(&next, "\n"));
  free(text);
  ring_environment_shares();
  if (ring_environment_read(&read, &error) == RING_OK) {
    check_read(&read);
  } else {
    const char *token = getenv("SPARKRING_TOKEN");
    FUZZ_PROMISE(error.status == RING_INVALID && error.message[0] != '\0');
    FUZZ_PROMISE(token == NULL || !is_telltale(token) || strstr(error.message, token) == NULL);
    FUZZ_PROMISE(read.addresses == NULL && read.token == NULL);
  }
  ring_environment_free(&read);
  return 0;
}
