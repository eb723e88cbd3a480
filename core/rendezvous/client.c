/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds rank 0: tries the job's ports on rank 0's host, one after another, until a listener proves
 * to be rank 0. After a port that refuses, the next one is tried at once. A port that accepts and
 * stays silent delays the next one by CLIENT_SILENT_NS; its connection is kept, because rank 0 may
 * be busy. A listener of another job is dropped. After the last port the search pauses and starts
 * over, because rank 0 may not have started yet.
 *
 * A pass ends after the first port that refuses and one further port, another one in each pass.
 * Rank 0 takes the first free port, so it is behind a port that refuses only if that port was in
 * use then. A thousand ranks that try all ports in each pass would leave rank 0 no time.
 *
 * A rank 0 that goes away after the join may have been restarted: the search goes on for a moment.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/platform.h"
#include "rendezvous/client.h"
#include "rendezvous/join.h"
#include "transport/resolver.h"

#define CLIENT_SILENT_NS UINT64_C(200000000)    /* until a silent port is no longer waited for */
#define CLIENT_TIMEOUT_NS UINT64_C(10000000000) /* until its connection is closed */
#define CLIENT_PAUSE_NS UINT64_C(10000000) /* first pause between two passes; it doubles up to */
#define CLIENT_PAUSE_MAX_NS UINT64_C(250000000)
#define CLIENT_UNKNOWN_S 5.0 /* until an unknown host name is an error */

/* Time for a rank 0 that went away after the join to come back. */
#define CLIENT_RETURN_NS UINT64_C(500000000)

/* A connection to one port. */
typedef struct client_attempt {
  ring_handshake handshake; /* fd -1: no connection under way */
  uint64_t begun;
  int address; /* index of the address of rank 0's host that is tried */
  size_t slot;
} client_attempt;

typedef struct client_search {
  ring_rendezvous *rendezvous;
  ring_peers *peers;
  ring_resolved resolved;
  ring_poll_set poll_set;
  client_attempt *attempts; /* by port of the sequence */
  int next;                 /* index of the port to try next */
  int further;              /* the port to try after one that refuses */
  bool refused;             /* a port of this pass has refused */
  bool no_port;             /* this host had no free port to connect from, in the last attempt */
  int lack;                 /* errno: what this host lacked for an attempt; 0: nothing */
  uint64_t pause, resume;
  bool unlike;                      /* rank 0's wish for encryption differs */
  bool found_foreign, found_formed; /* for the error at the deadline */
  uint64_t lost;                    /* when rank 0 went away after the join; 0: it has not */
  int version;
  uint16_t root_port; /* where rank 0 was last found */
  ring_seal *seal;    /* of the connection to it */
} client_search;

static void client_cancel(client_attempt *attempt) {
  ring_socket_close(&attempt->handshake.fd);
}

static void client_set_port(ring_resolved *resolved, int index, uint16_t port) {
  uint8_t bytes[2] = {(uint8_t)(port >> 8), (uint8_t)port};
  struct sockaddr_storage *address = &resolved->items[index].address;
  /* sin_port and sin6_port lie at the same offset, in network order. */
  memcpy((uint8_t *)address + 2, bytes, 2);
}

/* Connects to a port, trying rank 0's addresses from the current one on. */
static bool client_connect(client_search *search, int port) {
  client_attempt *attempt = &search->attempts[port];
  ring_claim claim = {.purpose = RING_PURPOSE_RENDEZVOUS,
                      .rank = search->rendezvous->rank,
                      .size = search->rendezvous->size,
                      .encrypted = search->rendezvous->encrypted};
  for (; attempt->address < search->resolved.count; attempt->address++) {
    client_set_port(&search->resolved, attempt->address, search->rendezvous->ports[port]);
    int fd = ring_socket_connect(&search->resolved, attempt->address);
    if (ring_socket_lacks(-fd)) search->lack = -fd;
    search->no_port = fd == -EADDRNOTAVAIL;
    if (fd < 0) continue;
    if (ring_handshake_connect(&attempt->handshake, fd, &search->peers->keys, &claim, 0))
      return true;
    search->lack = ENOMEM;
    return false;
  }
  search->refused = true;
  return false;
}

static void client_start(client_search *search, int port) {
  client_attempt *attempt = &search->attempts[port];
  attempt->address = 0;
  attempt->begun = ring_platform_now();
  if (!client_connect(search, port)) client_cancel(attempt);
}

/* Advances one attempt. True when its handshake with rank 0 is done. */
static bool client_advance(client_search *search, int port) {
  client_attempt *attempt = &search->attempts[port];
  bool connected = attempt->handshake.turn > 0;
  switch (ring_handshake_advance(&attempt->handshake)) {
  case RING_HANDSHAKE_DONE:
    return true;
  case RING_HANDSHAKE_READING:
  case RING_HANDSHAKE_WRITING:
    return false;
  case RING_HANDSHAKE_REFUSED:
    if (attempt->handshake.answer == RING_ANSWER_UNLIKE)
      search->unlike = true;
    else
      search->found_formed = true;
    break;
  case RING_HANDSHAKE_VERSION:
    search->version = attempt->handshake.peer_version;
    break;
  case RING_HANDSHAKE_LOST:
    if (attempt->handshake.system_errno == ENOMEM) search->lack = ENOMEM;
    /* A listener that closes the connection after the claim has another key. */
    search->found_foreign = search->found_foreign || attempt->handshake.turn > 2;
    if (connected) break;
    ring_socket_close(&attempt->handshake.fd);
    attempt->address++;
    if (client_connect(search, port)) return false;
    break;
  default:
    break;
  }
  client_cancel(attempt);
  return false;
}

/* Whether the next port may be tried: no attempt is so recent that an answer is likely. */
static bool client_may_start(const client_search *search, uint64_t now) {
  if (now < search->resume) return false;
  for (int i = 0; i < search->rendezvous->port_count; i++) {
    const client_attempt *attempt = &search->attempts[i];
    if (attempt->handshake.fd >= 0 && now < attempt->begun + CLIENT_SILENT_NS) return false;
  }
  return true;
}

/* Starts the next pass after a pause, which is long when a pending attempt may have reached rank
 * 0. */
static void client_restart(client_search *search, uint64_t now) {
  bool held = false;
  for (int i = 0; i < search->rendezvous->port_count; i++)
    held = held || search->attempts[i].handshake.fd >= 0;
  search->resume = now + (held ? CLIENT_PAUSE_MAX_NS : search->pause);
  search->pause = 2 * search->pause < CLIENT_PAUSE_MAX_NS ? 2 * search->pause : CLIENT_PAUSE_MAX_NS;
  search->next = 0;
  search->refused = false;
}

static void client_start_due(client_search *search) {
  const int ports = search->rendezvous->port_count;
  uint64_t now = ring_platform_now();
  while (client_may_start(search, now)) {
    if (search->next >= ports) {
      client_restart(search, now);
      continue;
    }
    int port = search->next++;
    if (search->refused) {
      search->next = ports;
      port = search->further = (search->further + 1) % ports;
    }
    if (search->attempts[port].handshake.fd < 0) client_start(search, port);
  }
}

static int client_slice(const client_search *search) {
  int slice = ring_wait_slice(search->rendezvous->wait);
  uint64_t now = ring_platform_now();
  if (now >= search->resume) return slice;
  int pause = (int)((search->resume - now) / 1000000) + 1;
  return pause < slice ? pause : slice;
}

/* No reason to end the search: that job may be an earlier attempt, which is about to end. */
static const char *client_formed_text(const client_search *search) {
  return search->found_formed
             ? "; a job with this token and these addresses has already formed there"
             : "";
}

static void client_warn(const client_search *search) {
  const ring_rendezvous *rendezvous = search->rendezvous;
  char ports[128], text[sizeof(((ring_error *)0)->message)];
  ring_rendezvous_ports_text(rendezvous, ports, sizeof ports);
  snprintf(
      text, sizeof text,
      "rank %d has waited %.1f s in open() for rank 0, which it looks for on %s (ports %s)%s%s%s",
      rendezvous->rank, ring_wait_seconds(rendezvous->wait), rendezvous->root_host, ports,
      search->found_foreign ? "; another job, or one with another token, answered" : "",
      search->version != 0 ? "; what answered has another version of sparkring" : "",
      client_formed_text(search));
  ring_wait_warn(rendezvous->wait, text);
}

/* Searches until the handshake with rank 0 is done: *fd is the connection, *seal its seal. */
static ring_status client_find_root(client_search *search, int *fd, ring_seal *seal) {
  const int ports = search->rendezvous->port_count;
  for (;;) {
    client_start_due(search);
    ring_poll_set_reset(&search->poll_set);
    for (int i = 0; i < ports; i++) {
      client_attempt *attempt = &search->attempts[i];
      bool writing =
          attempt->handshake.turn == 0 || attempt->handshake.state == RING_HANDSHAKE_WRITING;
      attempt->slot = SIZE_MAX;
      if (attempt->handshake.fd >= 0)
        attempt->slot =
            ring_poll_set_add(&search->poll_set, attempt->handshake.fd, writing ? POLLOUT : POLLIN);
    }
    ring_status status = ring_poll_set_sleep(&search->poll_set, client_slice(search));
    if (status != RING_OK) return status;
    uint64_t now = ring_platform_now();
    for (int i = 0; i < ports; i++) {
      client_attempt *attempt = &search->attempts[i];
      if (ring_poll_set_ready(&search->poll_set, attempt->slot) && client_advance(search, i)) {
        *fd = attempt->handshake.fd;
        attempt->handshake.fd = -1;
        search->root_port = search->rendezvous->ports[i];
        return ring_seal_begin(seal, &attempt->handshake) ? RING_OK : RING_NO_MEMORY;
      }
      if (attempt->handshake.fd >= 0 && now > attempt->begun + CLIENT_TIMEOUT_NS)
        client_cancel(attempt);
    }
    if (search->unlike) return RING_MISMATCH;
    status = search->lack != 0 ? RING_SYSTEM : ring_wait_check(search->rendezvous->wait);
    if (status == RING_OK && search->lost != 0 && now - search->lost > CLIENT_RETURN_NS)
      status = RING_PEER_LOST;
    if (status != RING_OK) return status;
    if (ring_wait_lasts(search->rendezvous->wait)) client_warn(search);
  }
}

/* ---- The rendezvous -------------------------------------------------------------------------- */

/* Other processes may free ports, so this is an error only at the deadline. */
static ring_status client_no_port(const client_search *search, double seconds, ring_error *error) {
  char ports[64];
  int rank = search->rendezvous->rank;
  ring_socket_ports_text(ports, sizeof ports);
  return ring_error_set(
      error, RING_SYSTEM, rank, EADDRNOTAVAIL,
      "rank %d could not look for rank 0 on %s: within %.1f s its own host had no "
      "free port to connect from, of %s: widen that range, or find the processes that use "
      "its ports",
      rank, search->rendezvous->root_host, seconds, ports);
}

/* Rank 0 was lost; or this process was suspended, and rank 0 has ended meanwhile. */
static ring_status client_lost_root(const client_search *search, ring_error *error) {
  const ring_rendezvous *rendezvous = search->rendezvous;
  double absence = ring_wait_absence(rendezvous->wait);
  if (absence == 0)
    return ring_error_set(error, RING_PEER_LOST, 0, 0,
                          "rank 0 (%s) was lost in open(): rank %d had joined it, and it went away "
                          "before all ranks had joined",
                          rendezvous->root_host, rendezvous->rank);
  return ring_error_set(error, RING_ABORTED, rendezvous->rank, 0,
                        "rank %d was stopped for %.1f s during open(), and rank 0 (%s) has ended "
                        "meanwhile: peers timed out waiting for this rank",
                        rendezvous->rank, absence, rendezvous->root_host);
}

static ring_status client_explain(const client_search *search, ring_status status,
                                  ring_error *error) {
  const ring_rendezvous *rendezvous = search->rendezvous;
  char ports[128];
  ring_rendezvous_ports_text(rendezvous, ports, sizeof ports);
  if (status == RING_ABORTED) return ring_rendezvous_aborted(rendezvous, error);
  if (status == RING_NO_MEMORY) return ring_error_no_memory(error, rendezvous->rank);
  if (search->unlike)
    return ring_rendezvous_mismatch(rendezvous, rendezvous->rank, !rendezvous->encrypted, error);
  if (status == RING_PEER_LOST && search->lost != 0) return client_lost_root(search, error);
  if (search->lack != 0)
    return ring_error_set(error, search->lack == ENOMEM ? RING_NO_MEMORY : RING_SYSTEM,
                          rendezvous->rank, search->lack,
                          "rank %d cannot open a connection to rank 0", rendezvous->rank);
  if (status != RING_TIMEOUT)
    return ring_error_set(error, status, rendezvous->rank, 0,
                          "rank %d could not look for rank 0: %s", rendezvous->rank,
                          ring_status_text(status));
  double seconds = ring_wait_seconds(rendezvous->wait);
  if (search->no_port) return client_no_port(search, seconds, error);
  if (search->version != 0)
    return ring_error_set(error, RING_TIMEOUT, 0, 0,
                          "rank %d found on %s only a sparkring of wire version %d, and has %d: "
                          "install the same version everywhere",
                          rendezvous->rank, rendezvous->root_host, search->version,
                          RING_WIRE_VERSION);
  if (search->root_port != 0 && search->lost == 0)
    return ring_error_set(error, RING_TIMEOUT, -1, 0,
                          "rank %d joined rank 0 on %s port %u, but not all of the %d ranks did so "
                          "within %.1f s",
                          rendezvous->rank, rendezvous->root_host, (unsigned)search->root_port,
                          rendezvous->size, seconds);
  return ring_error_set(
      error, RING_TIMEOUT, 0, 0,
      "rank %d did not find rank 0 on %s within %.1f s (ports %s)%s%s%s. Usual causes: rank 0 "
      "never "
      "started (an empty partition never starts an R closure, fewer slots than partitions), a "
      "firewall (open the port range and pass it on all ranks), or a token, job or address list "
      "that differs",
      rendezvous->rank, rendezvous->root_host, seconds, ports,
      search->lost != 0 ? "; it was there, and went away" : "",
      search->found_foreign ? "; another job, or one with another token, answered" : "",
      client_formed_text(search));
}

/* Finds rank 0 and joins, and does so again if rank 0 goes away: it may have been restarted. */
static ring_status client_run(client_search *search, ring_error *error) {
  for (;;) {
    int fd = -1;
    ring_status status = client_find_root(search, &fd, search->seal);
    if (status != RING_OK) {
      ring_socket_close(&fd);
      return client_explain(search, status, error);
    }
    for (int i = 0; i < search->rendezvous->port_count; i++) client_cancel(&search->attempts[i]);
    search->lost = 0;
    error->status = RING_OK;
    status = ring_rendezvous_join(search->rendezvous, search->peers, fd, search->seal, error);
    ring_socket_close(&fd);
    ring_seal_wipe(search->seal);
    if (status == RING_OK || error->status != RING_OK) return status;
    ring_peers_close(search->peers);
    if (status != RING_PEER_LOST) return client_explain(search, status, error);
    search->lost = ring_platform_now();
    search->next = 0;
    search->pause = CLIENT_PAUSE_NS;
  }
}

/* The error of a host of rank 0 without an address. */
static ring_status client_unresolved(const client_search *search, ring_status status,
                                     const char *reason, ring_error *error) {
  const ring_rendezvous *rendezvous = search->rendezvous;
  int lack = search->resolved.lack;
  if (status == RING_ABORTED) return client_explain(search, status, error);
  if (lack == ENOMEM) return ring_error_no_memory(error, rendezvous->rank);
  if (lack != 0)
    return ring_error_set(error, RING_SYSTEM, rendezvous->rank, lack,
                          "rank %d cannot resolve the host %s of rank 0", rendezvous->rank,
                          rendezvous->root_host);
  return ring_error_set(
      error, status, 0, 0, "rank %d cannot resolve the host %s of rank 0: %s (after %.1f s)",
      rendezvous->rank, rendezvous->root_host, reason, ring_wait_seconds(rendezvous->wait));
}

/* Looks up rank 0's host. A name server may be slow, and may not know a new machine yet. */
static ring_status client_look_up(client_search *search, ring_error *error) {
  const ring_rendezvous *rendezvous = search->rendezvous;
  ring_wait *wait = rendezvous->wait;
  ring_resolver *resolver = NULL;
  const char *reason;
  for (;;) {
    ring_resolver_answer answer =
        ring_resolver_ask(&resolver, rendezvous->root_host, 1, &search->resolved, &reason);
    if (answer == RING_RESOLVER_FOUND) return RING_OK;
    ring_status status = ring_wait_check(wait);
    bool unknown = answer == RING_RESOLVER_UNKNOWN && ring_wait_seconds(wait) > CLIENT_UNKNOWN_S;
    if (unknown || answer == RING_RESOLVER_FAILED) status = RING_PEER_LOST;
    if (status != RING_OK) {
      ring_resolver_drop(&resolver);
      return client_unresolved(search, status, reason, error);
    }
    if (ring_wait_lasts(wait)) client_warn(search);
    int slice = ring_wait_slice(wait), most = answer == RING_RESOLVER_PENDING ? 5 : 100;
    poll(NULL, 0, slice < most ? slice : most);
  }
}

static ring_status client_prepare(client_search *search, ring_error *error) {
  const ring_rendezvous *rendezvous = search->rendezvous;
  ring_status status = client_look_up(search, error);
  if (status != RING_OK) return status;
  search->attempts = calloc((size_t)rendezvous->port_count, sizeof *search->attempts);
  if (search->attempts == NULL) return ring_error_no_memory(error, rendezvous->rank);
  for (int i = 0; i < rendezvous->port_count; i++) search->attempts[i].handshake.fd = -1;
  search->seal = ring_secret_alloc(sizeof *search->seal);
  return search->seal != NULL ? RING_OK : ring_error_no_memory(error, rendezvous->rank);
}

ring_status ring_rendezvous_client(ring_rendezvous *rendezvous, ring_peers *peers,
                                   ring_error *error) {
  client_search search = {.rendezvous = rendezvous, .peers = peers, .pause = CLIENT_PAUSE_NS};
  ring_error local;
  ring_status status = client_prepare(&search, error);
  if (status == RING_OK) status = client_run(&search, error != NULL ? error : &local);
  for (int i = 0; search.attempts != NULL && i < rendezvous->port_count; i++)
    client_cancel(&search.attempts[i]);
  free(search.attempts);
  ring_secret_free(search.seal, sizeof *search.seal);
  ring_poll_set_fini(&search.poll_set);
  return status;
}
