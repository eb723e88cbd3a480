/* SPDX-License-Identifier: Apache-2.0 */
#include "api/comm_lifecycle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/collective.h"
#include "api/environment.h"
#include "api/options.h"
#include "api/request.h"
#include "api/reserved_port.h"
#include "backend/mpi_opening.h"
#include "base/address.h"
#include "base/error.h"
#include "base/platform.h"
#include "peers/shutdown.h"
#include "rendezvous/rendezvous.h"
#include "shm/attach.h"
#include "shm/shm_failure.h"
#include "transport/socket.h"

#define COMM_CROWD 4 /* ranks a processor, up to which yielding it passes it to one that has work */

/* ---- Opening ------------------------------------------------------------------------------ */

/* Parses the hosts of all addresses into one allocation, the strings behind the pointers. *hosts
 * is NULL without addresses and on failure. */
static ring_status comm_parse_hosts(const ring_options *options, const char ***hosts,
                                    ring_error *error) {
  size_t count = (size_t)options->address_count, capacity = count * sizeof **hosts;
  *hosts = NULL;
  if (count == 0) return RING_OK;
  for (size_t rank = 0; rank < count; rank++)
    if (options->addresses[rank] != NULL) capacity += strlen(options->addresses[rank]) + 1;
  const char **parsed = malloc(capacity);
  if (parsed == NULL) return ring_error_no_memory(error, options->rank);
  char *to = (char *)(parsed + count), host[RING_HOST_BYTES];
  for (size_t rank = 0; rank < count; rank++) {
    ring_error reason;
    int port;
    ring_status status =
        ring_address_parse(options->addresses[rank], host, sizeof host, &port, &reason);
    if (status != RING_OK) {
      free(parsed);
      return ring_error_set(error, status, (int)rank, 0, "the address of rank %d is bad: %s",
                            (int)rank, reason.message);
    }
    parsed[rank] = to;
    to = stpcpy(to, host) + 1;
  }
  *hosts = parsed;
  return RING_OK;
}

/* Breaks the communicator between two calls of opening. The failure is also sent to ranks that
 * connect only now. */
static void comm_break_opening(ring_comm *comm, const ring_error *error) {
  ring_native_set_opening(&comm->native);
  ring_comm_break(comm, error);
}

/* Runs the rendezvous. `hosts` is the result of comm_parse_hosts. */
static ring_status comm_rendezvous(ring_comm *comm, const ring_options *options, ring_wait *wait,
                                   const char *const *hosts, ring_error *error) {
  char root[RING_HOST_BYTES] = "127.0.0.1";
  int port;
  ring_status status = RING_OK;
  if (hosts != NULL)
    strcpy(root, hosts[0]); /* NOLINT(clang-analyzer-core.CallAndMessage): all hosts were parsed */
  else if (options->root_address != NULL)
    status = ring_address_parse(options->root_address, root, sizeof root, &port, error);
  if (status != RING_OK) return status;
  ring_rendezvous rendezvous = {.rank = options->rank,
                                .size = options->size,
                                .hosts = hosts,
                                .root_host = root,
                                .job = options->job,
                                .token = options->token,
                                .token_length = options->token_length,
                                .port_first = options->port_first,
                                .port_last = options->port_last,
                                .encrypted = options->encryption == RING_ON,
                                .exchange = options->exchange,
                                .exchange_arg = options->exchange_arg,
                                .wait = wait};
  status = ring_rendezvous_run(&rendezvous, &comm->peers, error);
  if (status != RING_OK && rendezvous.awaited) comm_break_opening(comm, error);
  return status;
}

ring_comm *ring_comm_alloc(int rank, int size, double call_timeout) {
  ring_comm *comm = calloc(1, sizeof *comm);
  if (comm == NULL) return NULL;
  atomic_flag_clear(&comm->busy);
  comm->process = ring_platform_process();
  comm->listener = -1;
  comm->call_timeout = call_timeout;
  ring_native_init(&comm->native, &comm->peers, &comm->shm);
  comm->backend = &comm->native.base;
  /* Allocates everything that grows with the number of ranks before any rank knows of this one.
   * Later there would be no link yet over which to report a lack of memory. */
  if (ring_peers_init(&comm->peers, rank, size) == RING_OK &&
      ring_topology_init(&comm->topology, size) == RING_OK)
    return comm;
  ring_comm_discard(comm);
  return NULL;
}

void ring_comm_discard(ring_comm *comm) {
  if (comm != NULL) comm->state = RING_COMM_BROKEN;
  ring_comm_free(comm);
}

void ring_comm_inherit(ring_comm *child, const ring_comm *parent) {
  child->shares = parent->shares;
  child->peers.connections = parent->peers.connections;
  child->peers.inside_connections = parent->peers.inside_connections;
  child->peers.authenticated = parent->peers.authenticated;
  child->peers.encrypted = parent->peers.encrypted;
  child->native.plans.selector = parent->native.plans.selector;
  child->port_first = parent->port_first;
  child->port_last = parent->port_last;
  child->interrupt = parent->interrupt;
  child->interrupt_arg = parent->interrupt_arg;
  child->alarm = parent->alarm;
  child->watch_parent = parent->watch_parent;
}

/* Numbers the hosts, and derives local ranks and the tier of the links. */
static void comm_survey(ring_comm *comm) {
  const ring_peers *peers = &comm->peers;
  ring_topology *topology = &comm->topology;
  for (int rank = 0; rank < peers->size; rank++) topology->nodes[rank] = peers->peer[rank].host;
  ring_topology_survey(topology);
  int node = topology->nodes[peers->rank], processors = ring_platform_processors();
  for (int rank = 0; rank < peers->rank; rank++) comm->local_rank += topology->nodes[rank] == node;
  comm->local_size = topology->ranks[node];
  comm->peers.cores = comm->local_size <= processors                ? RING_CORES_SUFFICE
                      : comm->local_size <= COMM_CROWD * processors ? RING_CORES_SHARED
                                                                    : RING_CORES_CROWDED;
  comm->spare_cores = 2 * comm->local_size <= processors;
  comm->native.plans.selector.topology = topology;
  comm->native.plans.selector.tier = topology->hosts == 1 ? RING_TIER_LOOPBACK : RING_TIER_NETWORK;
}

/* Serves the listener during waits in shared memory. */
static void comm_serve_wait(void *context) {
  ring_comm *comm = context;
  ring_peers_accept(&comm->peers, &comm->wait_polls);
}

/* Forms the shm groups: the ranks of a host share memory where all of them can map it. */
static ring_status comm_form_shm(ring_comm *comm, ring_wait *wait) {
  uint8_t *has = calloc((size_t)comm->peers.size, 1);
  const ring_wait_service service = {comm_serve_wait, comm, &comm->peers.acceptor.pending_count};
  ring_error error;
  ring_status status;
  if (has == NULL) {
    status = ring_error_no_memory(&error, comm->peers.rank);
    comm_break_opening(comm, &error);
    return status;
  }
  has[comm->peers.rank] = comm->shares && ring_shm_fetch(&comm->shm, &comm->peers, wait);
  status = ring_collective_allgather_byte(comm, has, wait);
  if (status == RING_OK) {
    status = ring_shm_settle(&comm->shm, &comm->peers, has, &service, wait, &error);
    if (status != RING_OK) comm_break_opening(comm, &error);
    ring_topology_share(&comm->topology, has);
    if (comm->topology.hosts == 1) comm->native.plans.selector.tier = comm->topology.inside;
  }
  free(has);
  return status;
}

/* Opens the backend that the user wants above `native`. One rank needs none. The ranks share no memory yet: there
 * the calls of opening, which have no number, could not be distinguished. */
static ring_status comm_open_backend(ring_comm *comm, ring_wait *wait) {
  ring_mpi *mpi;
  ring_error error;
  if (!comm->wants_mpi || comm->peers.size == 1) return RING_OK;
  ring_status status = ring_mpi_open(&comm->native, comm->topology.nodes, wait, &mpi, &error);
  if (status == RING_OK)
    comm->backend = &mpi->base;
  else
    comm_break_opening(comm, &error);
  return status == RING_OK ? RING_OK : comm->failure.status;
}

/* The first barrier also compares the selectors and the backends of all ranks. */
static ring_status comm_first_barrier(ring_comm *comm, ring_wait *wait) {
  ring_status status = ring_collective_barrier(comm, RING_COLLECTIVE_OPEN, wait);
  if (status != RING_MISMATCH) return status;
  ring_error *error = &comm->failure;
  size_t length = strlen(error->message);
  snprintf(
      error->message + length, sizeof error->message - length,
      ": give all ranks the same algorithm rules, the same connections, the same backend and the "
      "same version of sparkring; rank %d has %d connection%s between hosts and %d rule%s, takes "
      "the slowest link for %s, and wants the backend %s",
      comm->peers.rank, comm->peers.connections, comm->peers.connections == 1 ? "" : "s",
      comm->native.plans.selector.rules.count,
      comm->native.plans.selector.rules.count == 1 ? "" : "s",
      ring_tier_name(comm->native.plans.selector.tier), comm->wants_mpi ? "mpi" : "native");
  return status;
}

ring_status ring_comm_gather_up(ring_comm *comm, ring_wait *wait, ring_error *error) {
  comm_survey(comm);
  bool may_share = ring_topology_has_group(&comm->topology, RING_SHM_RANKS);
  if (may_share && comm->shares) ring_shm_invite(&comm->shm, &comm->peers);
  ring_status status = comm_first_barrier(comm, wait);
  if (status == RING_OK) comm->peers.exchanged = false; /* every rank has returned from it */
  if (status == RING_OK) status = comm_open_backend(comm, wait);
  if (status == RING_OK && may_share) status = comm_form_shm(comm, wait);
  if (status != RING_OK && error != NULL) *error = comm->failure;
  return status;
}

static ring_status comm_connect(ring_comm *comm, const ring_options *options, ring_error *error) {
  ring_wait wait;
  const char **hosts = NULL;
  comm_prepare_wait(comm, options->timeout, &wait);
  ring_wait_begin(&wait);
  ring_status status = comm_parse_hosts(options, &hosts, error);
  if (status == RING_OK) status = comm_rendezvous(comm, options, &wait, hosts, error);
  free(hosts);
  if (status != RING_OK) return status;
  return ring_comm_gather_up(comm, &wait, error);
}

static ring_status comm_read_algorithms(ring_comm *comm, const ring_options *options,
                                        ring_error *error) {
  bool given = options->algorithms != NULL;
  return ring_rules_parse(&comm->native.plans.selector.rules,
                          given ? "algorithms" : RING_ENVIRONMENT_ALGORITHMS,
                          given ? options->algorithms : getenv(RING_ENVIRONMENT_ALGORITHMS), error);
}

static ring_status comm_create(const ring_options *options, ring_comm **out, ring_error *error) {
  ring_comm *comm = ring_comm_alloc(options->rank, options->size, options->call_timeout);
  if (comm == NULL) return ring_error_no_memory(error, options->rank);
  comm->shares = options->shared_memory == RING_ON;
  comm->peers.connections = options->connections;
  comm->peers.inside_connections = comm->shares ? 1 : options->connections;
  comm->port_first = options->port_first;
  comm->port_last = options->port_last;
  comm->interrupt = options->interrupt;
  comm->interrupt_arg = options->interrupt_arg;
  comm->alarm = (ring_alarm){
      .after = options->warn_after == RING_NEVER ? 0 : (uint64_t)(options->warn_after * 1e9),
      .log = options->log,
      .log_arg = options->log_arg};
  comm->watch_parent = options->watch_parent == RING_ON;
  comm->wants_mpi = strcmp(options->backend, "mpi") == 0;
  ring_world *world = ring_world_make(NULL);
  if (world != NULL) ring_comm_settle(comm, world);
  ring_status status = world != NULL ? comm_read_algorithms(comm, options, error)
                                     : ring_error_no_memory(error, options->rank);
  if (status == RING_OK) status = comm_connect(comm, options, error);
  if (status == RING_OK) {
    comm->lasting = true;
    *out = comm;
    return RING_OK;
  }
  ring_comm_discard(comm);
  return status;
}

ring_status ring_comm_open(const ring_options *given, ring_comm **comm, ring_error *error) {
  ring_options options;
  ring_environment environment = {0};
  ring_error unread;
  if (error == NULL) error = &unread;
  *error = (ring_error){.rank = -1};
  if (comm == NULL) return ring_error_set(error, RING_INVALID, -1, 0, "comm is NULL");
  *comm = NULL;
  ring_status status = ring_options_read(given, &options, &environment, error);
  if (status == RING_OK) status = comm_create(&options, comm, error);
  ring_environment_free(&environment);
  return status;
}

/* ---- Ending ------------------------------------------------------------------------------- */

#define COMM_LONGEST 1e9 /* seconds */

/* Whether the backend still carries calls out. If not, its communicator has not ended well: a rank that closed it
 * nevertheless would finalize MPI, and wait there for ranks that do not. */
static ring_status comm_check_backend(ring_comm *comm) {
  ring_error error;
  if (comm->backend->table->check == NULL) return RING_OK;
  ring_status status = comm->backend->table->check(comm->backend, &error);
  if (status != RING_OK) ring_comm_break(comm, &error);
  return status;
}

/* A rank that ends a failed communicator does not shrink it. What a thread that runs a request may still be failing
 * is left to it, or to the end of the communicator. */
static void comm_resign_failed(ring_comm *comm) {
  if (comm == NULL || comm->process != ring_platform_process() || !ring_comm_try(comm)) return;
  bool idle = atomic_load_explicit(&comm->outstanding, memory_order_acquire) == 0;
  if (idle && comm->state != RING_COMM_OPEN) ring_comm_resign(comm);
  ring_comm_leave(comm);
}

/* Runs two barriers over links, and one in shared memory before them. A rank that passes the
 * first two knows that all ranks have called close and that no call of its own differed. A rank
 * that passes the last knows the same of all ranks: no rank closes well while another one fails. */
ring_status ring_comm_close_within(ring_comm *comm, double seconds) {
  ring_wait wait;
  ring_status status = ring_comm_enter(comm);
  if (status != RING_OK) comm_resign_failed(comm);
  if (status != RING_OK) return status;
  if (!(seconds > 0)) seconds = comm->call_timeout;
  comm_prepare_wait(comm, seconds < COMM_LONGEST ? seconds : COMM_LONGEST, &wait);
  ring_wait_begin(&wait);
  status = comm_check_backend(comm);
  if (status == RING_OK) status = ring_collective_barrier_shared(comm, &wait);
  if (status == RING_OK) status = ring_collective_barrier(comm, RING_COLLECTIVE_CLOSE, &wait);
  if (status == RING_OK) status = ring_collective_barrier(comm, RING_COLLECTIVE_CLOSE, &wait);
  if (status == RING_OK) {
    comm->state = RING_COMM_CLOSED;
    if (comm->backend->table->end != NULL) comm->backend->table->end(comm->backend);
    ring_shutdown(&comm->peers, &comm->native.engine.poll_set, &wait);
  } else {
    comm->error = comm->failure;
  }
  ring_peers_close(&comm->peers);
  ring_comm_resign(comm);
  ring_comm_leave(comm);
  return status;
}

ring_status ring_comm_close(ring_comm *comm) {
  return ring_comm_close_within(comm, 0);
}

/* Ends what is outstanding, then the communicator. Called between enter and leave. */
static void comm_end(ring_comm *comm, const ring_error *error) {
  if (ring_queue_abort(comm, error)) {
    comm->error = comm->failure;
    ring_peers_close(&comm->peers);
  } else {
    atomic_store(&comm->ending, true);
  }
}

/* In a hook: the call ends when the hook has returned, and breaks the communicator. */
static void comm_stop_in_hook(ring_comm *comm, const ring_error *error) {
  if (atomic_load(&comm->outstanding) == 0 || comm->state != RING_COMM_OPEN) return;
  if (!ring_queue_abort(comm, error)) atomic_store(&comm->ending, true);
}

/* Why this rank aborts: the rank at fault that it has learned of in another communicator of the world, or the
 * reason of its user. */
static void comm_abort_cause(const ring_comm *comm, const char *reason, ring_error *error) {
  const ring_peers *peers = &comm->peers;
  const ring_error *loss = ring_world_loss(comm->world);
  int fault = loss != NULL ? ring_peers_find(peers, loss->rank) : -1;
  bool given = reason != NULL && reason[0] != '\0';
  if (fault >= 0 && fault != peers->rank)
    ring_error_set(error, loss->status, fault, 0,
                   "rank %d (%s) is at fault, and rank %d (%s) aborted the communicator: %s", fault,
                   ring_peers_name(peers, fault), peers->rank, ring_peers_name(peers, peers->rank),
                   loss->message);
  else
    ring_error_set(error, RING_ABORTED, peers->rank, 0, "rank %d (%s) aborted the communicator%s%s",
                   peers->rank, ring_peers_name(peers, peers->rank), given ? ": " : "",
                   given ? reason : "");
}

void ring_comm_revoke(ring_comm *comm, const char *reason) {
  ring_error error;
  comm_abort_cause(comm, reason, &error);
  ring_comm_stop(comm, &error);
  if (ring_comm_is_mine(comm) || ring_queue_runs_here(comm)) {
    comm_stop_in_hook(comm, &error);
  } else if (ring_comm_acquire_stopped(comm)) {
    ring_reserved_ports_fini(comm);
    if (comm->state == RING_COMM_OPEN) comm_end(comm, &error);
    ring_comm_leave(comm);
  }
}

void ring_comm_abort(ring_comm *comm, const char *reason) {
  if (comm == NULL) return;
  bool mine = comm->process == ring_platform_process();
  comm->lasting = comm->lasting && !mine;
  if (mine && comm->state == RING_COMM_OPEN)
    ring_comm_revoke(comm, reason);
  else
    ring_reserved_ports_fini(comm);
  comm_resign_failed(comm);
}

/* Of two ranks, the other one has sent what this rank has not. */
ring_status ring_comm_accuse(ring_comm *comm, int rank, const char *what) {
  static const char advice[] = "its memory or its sparkring is faulty, or it is hostile";
  ring_error error;
  ring_status status = ring_comm_enter_beside(comm);
  if (status != RING_OK) return status;
  if (rank < 0 && comm->peers.size == 2) rank = 1 - comm->peers.rank;
  if (rank < 0)
    ring_error_set(&error, RING_MISMATCH, -1, 0, "a rank other than rank %d sent %s: %s",
                   comm->peers.rank, what, advice);
  else
    ring_error_set(&error, RING_MISMATCH, rank, 0, "rank %d (%s) sent %s: %s", rank,
                   ring_peers_name(&comm->peers, rank), what, advice);
  comm_end(comm, &error);
  ring_comm_leave(comm);
  return RING_MISMATCH;
}

/* A communicator is often dropped because of an error. The reason passes that error to the other
 * ranks. */
static void comm_drop(ring_comm *comm) {
  const ring_error *last = &comm->error;
  char reason[512];
  snprintf(reason, sizeof reason, "it dropped it without closing it%s%.400s",
           last->status == RING_OK ? "" : "; the last error there: ",
           last->status == RING_OK ? "" : last->message);
  ring_comm_abort(comm, reason);
}

void ring_comm_free(ring_comm *comm) {
  if (comm == NULL) return;
  bool forked = comm->process != ring_platform_process();
  /* Structures that the helper thread of the parent was changing at the fork may be torn. They
   * leak. */
  bool torn = forked && atomic_load(&comm->outstanding) > 0;
  if (comm->state == RING_COMM_OPEN && !forked) comm_drop(comm);
  ring_queue_detach(comm);
  ring_peers_fini(&comm->peers);
  ring_socket_close(&comm->listener);
  ring_roster_free(comm->roster);
  ring_shm_fini(&comm->shm);
  ring_poll_set_fini(&comm->wait_polls);
  ring_reserved_ports_fini(comm);
  comm->backend->table->close(comm->backend, torn);
  if (!torn) {
    ring_topology_fini(&comm->topology);
    free(comm->bundle);
  }
  ring_store_free(&comm->store);
  ring_world_drop(comm->world);
  free(comm->timeline);
  free(comm);
}
