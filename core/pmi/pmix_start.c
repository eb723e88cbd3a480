/* SPDX-License-Identifier: Apache-2.0 */
#include "pmi/pmix_start.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "messages/message_progress.h"
#include "pmi/pmi_failure.h"

/* Variables that let each library choose its protocol, beside those that PMIx gives. Open MPI 4 looks for PMIx only
 * under launchers that it knows, unless a variable allows it; Open MPI 5 needs nothing. MPICH 5 refuses to choose between
 * PMI-1 and PMIx by itself. */
static const char pmix_start_choices[] =
    "OMPI_MCA_schizo=^orte\0OMPI_MCA_ess=pmi\0MPIR_CVAR_PMI_VERSION=1";

/* The first rank of a host. */
static int pmix_lead(const ring_topology *topology, int host) {
  int rank = 0;
  while (topology->nodes[rank] != host) rank++;
  return rank;
}

/* ---- Starting the server of a host -------------------------------------------------------- */

/* Names of the hosts, which is how ranks know them, each with its number where an earlier one has the same. NULL
 * without memory. */
static char **pmix_start_names(const ring_comm *comm) {
  const ring_topology *topology = &comm->topology;
  char **names = calloc((size_t)topology->hosts + 1, sizeof(*names));
  for (int host = 0; names != NULL && host < topology->hosts; host++) {
    const char *name = ring_comm_host(comm, pmix_lead(topology, host));
    bool taken =
        strpbrk(name, ",;[]:") != NULL; /* which PMIx gives a meaning, as in addresses of IPv6 */
    for (int other = 0; other < host && !taken; other++) taken = strcmp(names[other], name) == 0;
    size_t bytes = strlen(name) + 32;
    names[host] = malloc(bytes);
    if (names[host] == NULL) return names;
    if (taken)
      snprintf(names[host], bytes, "host-%d", host);
    else
      snprintf(names[host], bytes, "%s", name);
  }
  return names;
}

static void pmix_start_free_names(char **names) {
  for (char **name = names; name != NULL && *name != NULL; name++) free(*name);
  free(names);
}

/* False without memory. */
static bool pmix_start_send_job(ring_pmix_side *side, const ring_comm *comm) {
  char run[48], **names = pmix_start_names(comm), *bytes = NULL;
  ring_pmix_message message = {.value = RING_PMIX_VERSION};
  snprintf(run, sizeof run, "sparkring_%" PRIx64, ring_comm_epoch(comm));
  const ring_pmix_job job = {.name = run,
                             .directory = side->process.directory,
                             .size = ring_comm_size(comm),
                             .hosts = comm->topology.hosts,
                             .host = side->host,
                             .nodes = comm->topology.nodes,
                             .names = (const char **)names};
  if (names != NULL && names[job.hosts - 1] != NULL)
    message.bytes = bytes = ring_pmix_job_write(&job, &message.length);
  if (bytes != NULL) ring_pmix_channel_send(&side->process.channel, RING_PMIX_JOB, &message);
  free(bytes);
  pmix_start_free_names(names);
  return bytes != NULL;
}

void ring_pmix_start_begin(ring_pmix_side *side, const ring_comm *comm, bool wanted) {
  const ring_topology *topology = &comm->topology;
  side->rank = ring_comm_rank(comm);
  side->size = topology->size;
  side->host = topology->nodes[side->rank];
  side->lead = pmix_lead(topology, side->host);
  if (side->rank != side->lead) return;
  if (!wanted) {
    snprintf(side->problem, sizeof side->problem, "PMIx was switched off for this run");
  } else if (ring_pmix_process_start(&side->process, side->problem)) {
    side->environments = calloc((size_t)topology->size, sizeof(*side->environments));
    if (side->environments != NULL && pmix_start_send_job(side, comm)) return;
    snprintf(side->problem, sizeof side->problem, "out of memory");
  }
}

/* ---- Awaiting the server ------------------------------------------------------------------ */

/* Whether the server has sent the environments of all programs of this host. */
static bool pmix_start_has_all(const ring_pmix_side *side) {
  const int *nodes = side->messages->comm->topology.nodes;
  for (int rank = 0; rank < side->size; rank++)
    if (nodes[rank] == side->host && side->environments[rank].bytes == NULL) return false;
  return true;
}

/* False: the message is not one of a server that starts. */
static bool pmix_start_take_message(ring_pmix_side *side, char kind,
                                    const ring_pmix_message *message, bool *ready) {
  const ring_topology *topology = &side->messages->comm->topology;
  if (!ring_pmix_message_is_good(kind, message, topology->size)) return false;
  if (kind == RING_PMIX_REFUSED)
    snprintf(side->problem, sizeof side->problem, "%.*s",
             message->length < sizeof side->problem ? (int)message->length : RING_PMIX_PROBLEM,
             message->bytes);
  *ready = kind == RING_PMIX_READY;
  if (*ready) return pmix_start_has_all(side);
  if (kind != RING_PMIX_ENVIRONMENT) return kind == RING_PMIX_REFUSED;
  ring_pmix_strings *kept = &side->environments[message->rank];
  if (kept->bytes != NULL || topology->nodes[message->rank] != side->host) return false;
  kept->bytes = malloc(message->length);
  kept->length = message->length;
  if (kept->bytes != NULL) memcpy(kept->bytes, message->bytes, message->length);
  return true;
}

/* Takes what has arrived. True: the server is ready, or side->problem is the reason why not. */
static bool pmix_start_take_messages(ring_pmix_side *side) {
  static const char invalid[] = "sparkring-pmix is of another version of sparkring";
  ring_pmix_message message;
  char kind, how[RING_PMIX_PROBLEM];
  bool ready = false;
  while (!ready && side->problem[0] == '\0') {
    switch (ring_pmix_channel_receive(&side->process.channel, &kind, &message)) {
    case RING_PMIX_NOTHING:
      return false;
    case RING_PMIX_MESSAGE:
      if (pmix_start_take_message(side, kind, &message, &ready)) break;
      __attribute__((fallthrough));
    case RING_PMIX_INVALID:
      snprintf(side->problem, sizeof side->problem, "%s", invalid);
      break;
    case RING_PMIX_END:
      ring_pmix_process_describe(&side->process, how);
      snprintf(side->problem, sizeof side->problem, "sparkring-pmix %.200s", how);
      break;
    case RING_PMIX_NO_MEMORY:
      snprintf(side->problem, sizeof side->problem, "out of memory");
      break;
    }
  }
  return true;
}

/* Waits until the server of this host has started, or sets side->problem. RING_ABORTED: the wait was interrupted. */
static ring_status pmix_start_await_server(ring_pmix_side *side, ring_error *error) {
  const ring_comm *comm = side->messages->comm;
  ring_wait wait;
  ring_status status = RING_OK;
  comm_prepare_wait(comm, comm->call_timeout, &wait);
  ring_wait_begin(&wait);
  while (status == RING_OK && !pmix_start_take_messages(side)) {
    struct pollfd entry = {.fd = side->process.channel.fd,
                           .events = ring_pmix_channel_events(&side->process.channel)};
    poll(&entry, 1, ring_wait_slice(&wait));
    status = ring_wait_check(&wait);
  }
  if (status == RING_ABORTED)
    return ring_wait_aborted(&wait, side->rank, "the start of a PMIx server", error);
  if (status != RING_OK)
    snprintf(side->problem, sizeof side->problem, "sparkring-pmix did not start in %.0f seconds",
             ring_wait_seconds(&wait));
  return RING_OK;
}

/* ---- Agreement and environments ----------------------------------------------------------- */

static ring_status pmix_start_send(const ring_pmix_side *side, const char *bytes, size_t length,
                                   int peer) {
  return ring_messages_send(side->messages, bytes, length, RING_UINT8, peer, RING_PMIX_START);
}

/* Rank 0 receives the problem of each host, and sends the first one to all leads. */
static ring_status pmix_start_agree(ring_pmix_side *side) {
  const ring_topology *topology = &side->messages->comm->topology;
  char problem[sizeof side->problem], first[sizeof side->problem] = "";
  ring_status status = RING_OK;
  size_t bytes = sizeof problem;
  ring_pmi_failure_keep(first, side->messages, 0, side->problem);
  for (int host = 1; host < topology->hosts && status == RING_OK; host++) {
    int lead = pmix_lead(topology, host);
    problem[0] = '\0';
    status =
        ring_messages_recv(side->messages, problem, bytes, RING_UINT8, lead, RING_PMIX_START, NULL);
    problem[bytes - 1] = '\0';
    ring_pmi_failure_keep(first, side->messages, lead, problem);
  }
  memcpy(side->problem, first, bytes);
  for (int host = 1; host < topology->hosts && status == RING_OK; host++)
    status = pmix_start_send(side, side->problem, bytes, pmix_lead(topology, host));
  return status;
}

static ring_status pmix_start_ask(ring_pmix_side *side) {
  size_t bytes = sizeof side->problem;
  ring_status status = pmix_start_send(side, side->problem, bytes, 0);
  if (status == RING_OK)
    status = ring_messages_recv(side->messages, side->problem, bytes, RING_UINT8, 0,
                                RING_PMIX_START, NULL);
  side->problem[bytes - 1] = '\0';
  return status;
}

/* A zero byte and the variables for the program of a rank, or the problem; NULL without memory. */
static char *pmix_start_environment(const ring_pmix_side *side, int rank, size_t *length) {
  if (side->problem[0] != '\0') {
    *length = strlen(side->problem) + 1;
    return strdup(side->problem);
  }
  const ring_pmix_strings *given = &side->environments[rank];
  *length = 1 + given->length + sizeof pmix_start_choices;
  char *all = given->bytes != NULL ? malloc(*length) : NULL;
  if (all == NULL) return NULL;
  all[0] = '\0';
  memcpy(all + 1, given->bytes, given->length);
  memcpy(all + 1 + given->length, pmix_start_choices, sizeof pmix_start_choices);
  return all;
}

/* Whether the bytes are "NAME=value", each with its zero. */
static bool pmix_start_are_variables(const char *bytes, size_t length) {
  const char *at = bytes, *end = bytes + length;
  for (const char *zero; at < end; at = zero + 1) {
    zero = memchr(at, '\0', (size_t)(end - at));
    const char *equals = zero != NULL ? memchr(at, '=', (size_t)(zero - at)) : NULL;
    if (equals == NULL || equals == at) return false;
  }
  return length > 0;
}

/* Takes over what pmix_start_environment has made. */
static void pmix_start_take(ring_pmix_side *side, char *bytes, size_t length) {
  side->served = length > 1 && bytes[0] == '\0' && pmix_start_are_variables(bytes + 1, length - 1);
  if (side->served) {
    memmove(bytes, bytes + 1, length - 1);
    side->environment = (ring_pmix_strings){bytes, length - 1};
    return;
  }
  int shown = length < sizeof side->problem ? (int)length : (int)sizeof side->problem - 1;
  snprintf(side->problem, sizeof side->problem, "%.*s", shown, bytes);
  if (side->problem[0] == '\0')
    snprintf(side->problem, sizeof side->problem, "the variables of the host's server are invalid");
  free(bytes);
}

/* The lead sends each rank of its host what its program needs. */
static ring_status pmix_start_share(ring_pmix_side *side) {
  const ring_topology *topology = &side->messages->comm->topology;
  for (int rank = topology->size - 1; rank >= side->rank; rank--) {
    size_t length;
    if (topology->nodes[rank] != side->host) continue;
    char *bytes = pmix_start_environment(side, rank, &length);
    if (bytes == NULL) return RING_NO_MEMORY;
    if (rank == side->rank) {
      pmix_start_take(side, bytes, length);
      continue;
    }
    ring_status status = pmix_start_send(side, bytes, length, rank);
    free(bytes);
    if (status != RING_OK) return status;
  }
  return RING_OK;
}

/* A rank waits for its lead. */
static ring_status pmix_start_await(ring_pmix_side *side, ring_error *error) {
  ring_transfer *transfer;
  ring_hub_message message = {0};
  ring_status status =
      ring_messages_take_start(side->messages, side->lead, RING_PMIX_START, &transfer);
  if (status != RING_OK) return status;
  ring_transfer_wait(transfer);
  if (ring_hub_take(&transfer, &message, error) == RING_HUB_FAILURE) return error->status;
  char *copy = malloc(message.length + 1);
  if (copy != NULL && message.length > 0) memcpy(copy, message.bytes, message.length);
  if (copy != NULL) pmix_start_take(side, copy, message.length);
  ring_free(message.bytes);
  return copy == NULL ? RING_NO_MEMORY : RING_OK;
}

static ring_status pmix_start_lead(ring_pmix_side *side, ring_error *error) {
  ring_status status = pmix_start_await_server(side, error);
  if (status == RING_ABORTED) return status;
  status = side->rank == 0 ? pmix_start_agree(side) : pmix_start_ask(side);
  if (side->problem[0] != '\0') ring_pmix_process_end(&side->process);
  return status == RING_OK ? pmix_start_share(side) : status;
}

ring_status ring_pmix_start_finish(ring_pmix_side *side, ring_messages *messages, ring_hub *control,
                                   ring_error *error) {
  side->messages = messages;
  side->control = control;
  error->status = RING_OK;
  ring_status status =
      side->lead == side->rank ? pmix_start_lead(side, error) : pmix_start_await(side, error);
  if (status == RING_NO_MEMORY) return ring_pmi_failure_no_memory(error, messages);
  if (status == RING_OK) return ring_pmix_side_begin(side, error);
  if (error->status == RING_OK) *error = *ring_messages_error(messages);
  return status;
}

/* ---- Ending ------------------------------------------------------------------------------- */

static void pmix_end_environments(ring_pmix_side *side) {
  if (side->environments == NULL) return;
  for (int rank = 0; rank < side->size; rank++) free(side->environments[rank].bytes);
  free(side->environments);
  side->environments = NULL;
}

void ring_pmix_end(ring_pmix_side *side) {
  ring_transfer_free(side->receive); /* cancels it */
  side->receive = NULL;
  while (side->replies != NULL) {
    ring_pmix_reply *reply = side->replies;
    side->replies = reply->next;
    ring_transfer_free(reply->receive);
    free(reply);
  }
  ring_pmix_process_end(&side->process);
  pmix_end_environments(side);
}
