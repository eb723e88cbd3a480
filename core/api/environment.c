/* SPDX-License-Identifier: Apache-2.0
 *
 * One table has the variables of each source that hold rank and size. The first source with either of
 * them set counts, and determines the host of rank 0 and the name of the job.
 *
 * Slurm sets its variables also where only one process runs (a shell under salloc, a batch script),
 * with the task count of the whole allocation. So only a process of a numbered step counts, one
 * that srun started; numbers from 0xfffffff0 on are Slurm's own (batch, extern, interactive).
 */
#include "api/environment.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth/token.h"
#include "base/address.h"
#include "base/error.h"

/* X(id, name, rank, size, ranks on this host or NULL where no variable has them). */
#define ENVIRONMENT_SOURCE_MAP(X)                                                                  \
  X(LAUNCHER, "sparkring-run", "SPARKRING_RANK", "SPARKRING_SIZE", NULL)                           \
  X(OPEN_MPI, "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",                          \
    "OMPI_COMM_WORLD_LOCAL_SIZE")                                                                  \
  X(MPICH, "MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS")                                     \
  X(TORCHRUN, "torchrun", "RANK", "WORLD_SIZE", NULL)                                              \
  X(SLURM, "Slurm", "SLURM_PROCID", "SLURM_NTASKS", NULL)

enum {
#define ENVIRONMENT_SOURCE_ID(id, name, rank, size, local_size) ENVIRONMENT_##id,
  ENVIRONMENT_SOURCE_MAP(ENVIRONMENT_SOURCE_ID)
#undef ENVIRONMENT_SOURCE_ID
      ENVIRONMENT_SOURCES
};

typedef struct environment_source {
  const char *name, *rank, *size, *local_size;
} environment_source;

static const environment_source environment_sources[] = {
#define ENVIRONMENT_SOURCE_ROW(id, name, rank, size, local_size) {name, rank, size, local_size},
    ENVIRONMENT_SOURCE_MAP(ENVIRONMENT_SOURCE_ROW)
#undef ENVIRONMENT_SOURCE_ROW
};

static bool environment_is(const ring_environment *environment, int source) {
  return environment->source == environment_sources[source].name;
}

/* ---- Values ------------------------------------------------------------------------------- */

/* Digits, at most 15, and nothing else. */
static bool environment_number(const char *text, long long *value) {
  size_t length = text != NULL ? strspn(text, "0123456789") : 0;
  if (length == 0 || length > 15 || text[length] != '\0') return false;
  *value = strtoll(text, NULL, 10);
  return true;
}

/* Complains about a variable: its name and value, why it is bad, and what to do. */
static ring_status environment_bad(ring_error *error, const char *name, const char *why) {
  return ring_error_set(error, RING_INVALID, -1, 0, "%s is %s, %s", name,
                        ring_quote(getenv(name)).text, why);
}

static ring_status environment_integer(const char *name, int *value, ring_error *error) {
  long long number;
  if (!environment_number(getenv(name), &number) || number > INT_MAX)
    return environment_bad(error, name, "which is not a whole number: correct or unset it");
  *value = (int)number;
  return RING_OK;
}

/* The host of an address, for a variable that holds one. */
static ring_status environment_host(const char *name, const char *address, char *host,
                                    size_t host_size, ring_error *error) {
  int port;
  ring_error reason;
  ring_status status = ring_address_parse(address, host, host_size, &port, &reason);
  if (status == RING_OK) return status;
  return ring_error_set(error, status, -1, 0, "%s: %s: write host or host:port", name,
                        reason.message);
}

/* ---- Slurm -------------------------------------------------------------------------------- */

static bool environment_in_slurm_step(void) {
  long long step;
  return environment_number(getenv("SLURM_STEP_ID"), &step) && step < 0xfffffff0LL &&
         getenv("SLURM_PROCID") != NULL && getenv("SLURM_NTASKS") != NULL;
}

/* True where srun itself started the ranks, whichever the source. */
static bool environment_slurm_agrees(const ring_environment *environment) {
  long long rank, size;
  return environment_in_slurm_step() && environment_number(getenv("SLURM_PROCID"), &rank) &&
         environment_number(getenv("SLURM_NTASKS"), &size) && rank == environment->rank &&
         size == environment->size;
}

/* The first name of a node list: "gpu[003-010,12],cpu1" is gpu003. False where it is malformed. */
static bool environment_first_node(const char *list, char *node, size_t node_size) {
  size_t length = 0;
  for (; *list != '\0' && *list != ','; list++) {
    bool bracket = *list == '[';
    if (bracket) list++;
    size_t part = bracket ? strcspn(list, "-,]") : 1;
    if (part == 0 || length + part >= node_size) return false;
    memcpy(node + length, list, part);
    length += part;
    if (bracket) list = strchr(list, ']');
    if (list == NULL) return false;
  }
  node[length] = '\0';
  return length > 0;
}

/* Slurm numbers tasks along the step's node list, so rank 0 is on its first node. */
static ring_status environment_slurm_root(ring_environment *environment, ring_error *error) {
  const char *name = "SLURM_STEP_NODELIST";
  if (getenv(name) == NULL) name = "SLURM_JOB_NODELIST";
  const char *list = getenv(name);
  if (list == NULL) return RING_OK;
  char node[sizeof environment->root_address];
  if (!environment_first_node(list, node, sizeof node))
    return environment_bad(error, name,
                           "which is no list of nodes: set SPARKRING_ROOT_ADDRESS to the host of "
                           "rank 0");
  return environment_host(name, node, environment->root_address, sizeof environment->root_address,
                          error);
}

/* ---- Rank and size ------------------------------------------------------------------------ */

static const environment_source *environment_find(void) {
  for (int i = 0; i < ENVIRONMENT_SOURCES; i++) {
    const environment_source *source = &environment_sources[i];
    if (i == ENVIRONMENT_SLURM && !environment_in_slurm_step()) continue;
    if (getenv(source->rank) != NULL || getenv(source->size) != NULL) return source;
  }
  return NULL;
}

static ring_status environment_read_ranks(ring_environment *environment,
                                          const environment_source *source, ring_error *error) {
  const char *set = getenv(source->rank) != NULL ? source->rank : source->size;
  const char *other = set == source->rank ? source->size : source->rank;
  if (getenv(other) == NULL)
    return ring_error_set(error, RING_INVALID, -1, 0,
                          "%s is set but %s is not: set both, or unset %s to run alone", set, other,
                          set);
  ring_status status = environment_integer(source->size, &environment->size, error);
  if (status == RING_OK) status = environment_integer(source->rank, &environment->rank, error);
  if (status != RING_OK) return status;
  if (environment->size < 1)
    return environment_bad(error, source->size, "but the number of ranks must be 1 or more");
  if (environment->rank < environment->size) return RING_OK;
  return ring_error_set(error, RING_INVALID, -1, 0, "%s is %d, but %s is %d: ranks go from 0 to %d",
                        source->rank, environment->rank, source->size, environment->size,
                        environment->size - 1);
}

/* ---- Where the ranks are ------------------------------------------------------------------ */

static ring_status environment_read_addresses(ring_environment *environment, ring_error *error) {
  const char *name = "SPARKRING_ADDRESSES", *next = getenv(name);
  if (next == NULL) return RING_OK;
  int count = 1;
  for (const char *comma = next; (comma = strchr(comma, ',')) != NULL; comma++) count++;
  if (count != environment->size)
    return ring_error_set(
        error, RING_INVALID, -1, 0,
        "%s has %d entries, but the size is %d: name one for each rank, in rank order, "
        "with commas between them",
        name, count, environment->size);
  environment->addresses = calloc((size_t)count, sizeof *environment->addresses);
  if (environment->addresses == NULL)
    return ring_error_set(error, RING_NO_MEMORY, -1, 0, "no memory for %d addresses", count);
  while (environment->address_count < count) {
    size_t length = strcspn(next, ",");
    char host[RING_HOST_BYTES], *address = strndup(next, length);
    if (address == NULL) return ring_error_set(error, RING_NO_MEMORY, -1, 0, "no memory");
    environment->addresses[environment->address_count++] = address;
    ring_status status = environment_host(name, address, host, sizeof host, error);
    if (status != RING_OK) return status;
    next += length + 1;
  }
  return RING_OK;
}

/* Open MPI and MPICH set the number of ranks on this host: when it is all, no name is needed. */
static ring_status environment_on_one_host(const ring_environment *environment,
                                           const environment_source *source, bool *one_host,
                                           ring_error *error) {
  int local_size = 0;
  *one_host = environment->size == 1;
  if (source == NULL || source->local_size == NULL || getenv(source->local_size) == NULL)
    return RING_OK;
  ring_status status = environment_integer(source->local_size, &local_size, error);
  *one_host = *one_host || local_size == environment->size;
  return status;
}

static ring_status environment_read_root(ring_environment *environment,
                                         const environment_source *source, ring_error *error) {
  char *root = environment->root_address;
  size_t root_size = sizeof environment->root_address;
  bool one_host = false;
  const char *named = getenv("SPARKRING_ROOT_ADDRESS"), *master = getenv("MASTER_ADDR");
  if (named != NULL)
    return environment_host("SPARKRING_ROOT_ADDRESS", named, root, root_size, error);
  if (environment->addresses != NULL) return RING_OK;
  ring_status status = environment_on_one_host(environment, source, &one_host, error);
  if (status != RING_OK) return status;
  if (one_host) {
    snprintf(root, root_size, "127.0.0.1");
    return RING_OK;
  }
  if (master != NULL) return environment_host("MASTER_ADDR", master, root, root_size, error);
  if (environment_slurm_agrees(environment)) status = environment_slurm_root(environment, error);
  if (status != RING_OK || *root != '\0') return status;
  return ring_error_set(error, RING_INVALID, -1, 0,
                        "%s started %d ranks, but names no host of rank 0: set "
                        "SPARKRING_ROOT_ADDRESS or MASTER_ADDR to its host, or SPARKRING_ADDRESSES "
                        "to the hosts of all ranks",
                        environment->source, environment->size);
}

/* ---- The job ------------------------------------------------------------------------------ */

static const char *environment_or_empty(const char *name) {
  const char *text = getenv(name);
  return text != NULL ? text : "";
}

/* The last bytes of a text, which is where names made by programs count up. */
static const char *environment_tail(const char *text, size_t bytes) {
  size_t length = strlen(text);
  return length > bytes ? text + (length - bytes) : text;
}

static ring_status environment_read_job(ring_environment *environment, ring_error *error) {
  char *job = environment->job;
  size_t capacity = sizeof environment->job;
  const char *named = getenv("SPARKRING_JOB"), *mpi = getenv("OMPI_MCA_ess_base_jobid");
  if (named != NULL && strlen(named) >= capacity)
    return environment_bad(error, "SPARKRING_JOB", "which is longer than 127 bytes: shorten it");
  if (mpi == NULL) mpi = environment_or_empty("PMIX_NAMESPACE");
  if (named != NULL)
    snprintf(job, capacity, "%s", named);
  else if (environment_is(environment, ENVIRONMENT_OPEN_MPI))
    snprintf(job, capacity, "%s", environment_tail(mpi, capacity - 1));
  else if (environment_is(environment, ENVIRONMENT_TORCHRUN))
    snprintf(job, capacity, "%s:%.16s:%.16s",
             environment_tail(environment_or_empty("TORCHELASTIC_RUN_ID"), 92),
             environment_or_empty("MASTER_PORT"),
             environment_or_empty("TORCHELASTIC_RESTART_COUNT"));
  else if (environment->source != NULL && environment_slurm_agrees(environment))
    snprintf(job, capacity, "%.60s.%.60s", environment_or_empty("SLURM_JOB_ID"),
             environment_or_empty("SLURM_STEP_ID"));
  return RING_OK;
}

/* ---- What counts with every source -------------------------------------------------------- */

static ring_status environment_read_ports(ring_environment *environment, ring_error *error) {
  const char *name = "SPARKRING_PORTS", *text = getenv(name);
  if (text == NULL) return RING_OK;
  const char *dash = strchr(text, '-');
  char first_text[8] = "";
  long long first, last;
  if (dash != NULL && dash - text < (ptrdiff_t)sizeof first_text)
    memcpy(first_text, text, (size_t)(dash - text));
  if (dash == NULL || !environment_number(first_text, &first) ||
      !environment_number(dash + 1, &last))
    return environment_bad(error, name,
                           "which is not a range: write first-last, as in 21000-21999");
  if (first < 1 || last > 65535 || first > last)
    return environment_bad(error, name, "but ports go from 1 to 65535, the smaller one first");
  environment->port_first = (int)first;
  environment->port_last = (int)last;
  return RING_OK;
}

/* Seconds, as in "90" or "2.5". strtod would heed the locale's decimal comma. */
/* Digits with at most one point; false for anything else. */
static bool environment_seconds(const char *next, double *seconds) {
  double value = 0, unit = 1;
  bool digits = false, fraction = false, valid = true;
  for (; *next != '\0' && valid; next++) {
    bool digit = *next >= '0' && *next <= '9';
    valid = digit || (*next == '.' && !fraction);
    digits = digits || digit;
    fraction = fraction || !digit;
    if (digit) value = value * 10 + (*next - '0');
    if (digit && fraction) unit *= 10;
  }
  *seconds = value / unit;
  return valid && digits && *seconds < 1e9;
}

static ring_status environment_read_timeout(ring_environment *environment, ring_error *error) {
  const char *name = "SPARKRING_TIMEOUT", *value = getenv(name);
  double seconds;
  if (value == NULL) return RING_OK;
  if (!environment_seconds(value, &seconds) || !(seconds > 0))
    return environment_bad(error, name,
                           "which is not a number of seconds, more than 0 and less than 1e9: write "
                           "it as in 90 or 2.5");
  environment->timeout = seconds;
  return RING_OK;
}

/* ---- All of it ---------------------------------------------------------------------------- */

ring_status ring_environment_read(ring_environment *environment, ring_error *error) {
  *environment = (ring_environment){.size = 1};
  const environment_source *source = environment_find();
  ring_status status = RING_OK;
  if (source != NULL) {
    environment->source = source->name;
    status = environment_read_ranks(environment, source, error);
  }
  if (status == RING_OK) status = environment_read_addresses(environment, error);
  if (status == RING_OK) status = environment_read_root(environment, source, error);
  if (status == RING_OK) status = environment_read_job(environment, error);
  if (status == RING_OK) status = environment_read_ports(environment, error);
  if (status == RING_OK) status = environment_read_timeout(environment, error);
  if (status == RING_OK)
    status = ring_token_read(&environment->token, &environment->token_length, error);
  if (status != RING_OK) ring_environment_free(environment);
  return status;
}

void ring_environment_free(ring_environment *environment) {
  for (int i = 0; i < environment->address_count; i++) free(environment->addresses[i]);
  free(environment->addresses);
  ring_token_free(environment->token, environment->token_length);
  *environment = (ring_environment){0};
}

ring_choice ring_environment_shared_memory(void) {
  const char *value = getenv("SPARKRING_SHARED_MEMORY");
  return value != NULL && strcmp(value, "0") == 0 ? RING_OFF : RING_DEFAULT;
}

ring_status ring_environment_encryption(ring_choice *encryption, ring_error *error) {
  const char *name = "SPARKRING_ENCRYPTION", *value = getenv(name);
  *encryption = RING_DEFAULT;
  if (value == NULL) return RING_OK;
  if (strcmp(value, "0") != 0 && strcmp(value, "1") != 0)
    return environment_bad(error, name, "which is neither 1 nor 0: correct or unset it");
  *encryption = value[0] == '1' ? RING_ON : RING_OFF;
  return RING_OK;
}

ring_status ring_environment_connections(int *connections, ring_error *error) {
  const char *name = "SPARKRING_CONNECTIONS";
  *connections = 0;
  return getenv(name) == NULL ? RING_OK : environment_integer(name, connections, error);
}

ring_status ring_environment_warn_after(double *seconds, ring_error *error) {
  const char *name = "SPARKRING_WARN_AFTER", *value = getenv(name);
  *seconds = 0;
  if (value == NULL) return RING_OK;
  if (!environment_seconds(value, seconds))
    return environment_bad(error, name,
                           "which is not a number of seconds, less than 1e9: write it as in 90 or "
                           "2.5, or 0 for no warnings");
  if (*seconds == 0) *seconds = RING_NEVER;
  return RING_OK;
}
