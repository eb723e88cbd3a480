/* SPDX-License-Identifier: Apache-2.0
 *
 * The other ranks' side of the rendezvous by addresses: walk the job's ports on rank 0's host until a
 * listener proves to be rank 0, and join. A port that refuses is passed at once; one that accepts
 * and stays silent is passed after a moment but kept, because rank 0 may be busy; one that belongs
 * to somebody else is dropped. After the last port the walk pauses and begins again, because rank 0
 * may not have started yet. A walk ends at the first port that refuses, and one further port, each
 * time the next: rank 0 takes the first that is free, so it lies behind one that refuses only if
 * that was taken then, and a thousand ranks that walk all the way each time leave rank 0 no time.
 * A rank 0 that was joined and goes away has a moment to be there again: it may have been started anew.
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

#define GUEST_MOMENT_NS UINT64_C(200000000)     /* until a silent port is passed */
#define GUEST_PATIENCE_NS UINT64_C(10000000000) /* until it is dropped */
#define GUEST_PAUSE_NS UINT64_C(10000000)       /* the first pause between walks; it doubles to */
#define GUEST_PAUSE_MAX_NS UINT64_C(250000000)
#define GUEST_UNKNOWN_S 5.0 /* until a host name that does not exist is taken for wrong */

/* How long a rank 0 that was joined and went away may take to come back. */
#define GUEST_RETURN_NS UINT64_C(500000000)

/* One knock on one port. */
typedef struct client_knock {
  ring_handshake handshake; /* fd -1: none under way */
  uint64_t begun;
  int address; /* of rank 0's host, under trial */
  size_t slot;
} client_knock;

typedef struct client_walk {
  ring_rendezvous *rendezvous;
  ring_peers *peers;
  ring_resolved resolved;
  ring_poll_set poll_set;
  client_knock *knocks; /* by port of the sequence */
  int next;             /* port to knock on next */
  int further;          /* the port to try beyond one that refuses */
  bool refused;         /* a port, during this walk */
  bool portless;        /* this host had no port to knock from, the last time */
  int lack;             /* errno of what this host had not enough of to knock; 0: nothing */
  uint64_t pause, resume;
  bool unlike;                  /* rank 0 does not want the same encryption */
  bool met_foreign, met_formed; /* what to tell at the deadline */
  uint64_t lost; /* when rank 0 went away after this rank had found it; 0: it has not */
  int version;
  uint16_t root_port; /* where rank 0 was last found */
  ring_seal *seal;    /* of the connection to it */
} client_walk;

static void client_hang_up(client_knock *knock) {
  ring_socket_close(&knock->handshake.fd);
}

static void client_set_port(ring_resolved *resolved, int index, uint16_t port) {
  uint8_t bytes[2] = {(uint8_t)(port >> 8), (uint8_t)port};
  struct sockaddr_storage *address = &resolved->items[index].address;
  /* sin_port and sin6_port lie at the same offset, in network order. */
  memcpy((uint8_t *)address + 2, bytes, 2);
}

/* Connects to a port, trying rank 0's addresses from the current one on. */
static bool client_connect(client_walk *walk, int port) {
  client_knock *knock = &walk->knocks[port];
  ring_claim claim = {.purpose = RING_PURPOSE_RENDEZVOUS,
                      .rank = walk->rendezvous->rank,
                      .size = walk->rendezvous->size,
                      .encrypted = walk->rendezvous->encrypted};
  for (; knock->address < walk->resolved.count; knock->address++) {
    client_set_port(&walk->resolved, knock->address, walk->rendezvous->ports[port]);
    int fd = ring_socket_connect(&walk->resolved, knock->address);
    if (ring_socket_lacks(-fd)) walk->lack = -fd;
    walk->portless = fd == -EADDRNOTAVAIL;
    if (fd < 0) continue;
    if (ring_handshake_connect(&knock->handshake, fd, &walk->peers->keys, &claim, 0)) return true;
    walk->lack = ENOMEM;
    return false;
  }
  walk->refused = true;
  return false;
}

static void client_knock_on(client_walk *walk, int port) {
  client_knock *knock = &walk->knocks[port];
  knock->address = 0;
  knock->begun = ring_platform_now();
  if (!client_connect(walk, port)) client_hang_up(knock);
}

/* Hears one knock; true when rank 0 has opened. */
static bool client_hear(client_walk *walk, int port) {
  client_knock *knock = &walk->knocks[port];
  bool connected = knock->handshake.turn > 0;
  switch (ring_handshake_advance(&knock->handshake)) {
  case RING_HANDSHAKE_DONE:
    return true;
  case RING_HANDSHAKE_READING:
  case RING_HANDSHAKE_WRITING:
    return false;
  case RING_HANDSHAKE_REFUSED:
    if (knock->handshake.verdict == RING_VERDICT_UNLIKE)
      walk->unlike = true;
    else
      walk->met_formed = true;
    break;
  case RING_HANDSHAKE_VERSION:
    walk->version = knock->handshake.peer_version;
    break;
  case RING_HANDSHAKE_LOST:
    if (knock->handshake.system_errno == ENOMEM) walk->lack = ENOMEM;
    /* One that hangs up on the claim speaks the protocol but has another key. */
    walk->met_foreign = walk->met_foreign || knock->handshake.turn > 2;
    if (connected) break;
    ring_socket_close(&knock->handshake.fd);
    knock->address++;
    if (client_connect(walk, port)) return false;
    break;
  default:
    break;
  }
  client_hang_up(knock);
  return false;
}

/* True when the next port may be tried: no knock is so young that an answer is likely. */
static bool client_may_go_on(const client_walk *walk, uint64_t now) {
  if (now < walk->resume) return false;
  for (int i = 0; i < walk->rendezvous->port_count; i++) {
    const client_knock *knock = &walk->knocks[i];
    if (knock->handshake.fd >= 0 && now < knock->begun + GUEST_MOMENT_NS) return false;
  }
  return true;
}

/* Begins the next walk after a pause: a long one when somebody is there who may be rank 0. */
static void client_turn_back(client_walk *walk, uint64_t now) {
  bool held = false;
  for (int i = 0; i < walk->rendezvous->port_count; i++)
    held = held || walk->knocks[i].handshake.fd >= 0;
  walk->resume = now + (held ? GUEST_PAUSE_MAX_NS : walk->pause);
  walk->pause = 2 * walk->pause < GUEST_PAUSE_MAX_NS ? 2 * walk->pause : GUEST_PAUSE_MAX_NS;
  walk->next = 0;
  walk->refused = false;
}

static void client_step(client_walk *walk) {
  const int ports = walk->rendezvous->port_count;
  uint64_t now = ring_platform_now();
  while (client_may_go_on(walk, now)) {
    if (walk->next >= ports) {
      client_turn_back(walk, now);
      continue;
    }
    int port = walk->next++;
    if (walk->refused) {
      walk->next = ports;
      port = walk->further = (walk->further + 1) % ports;
    }
    if (walk->knocks[port].handshake.fd < 0) client_knock_on(walk, port);
  }
}

static int client_slice(const client_walk *walk) {
  int slice = ring_wait_slice(walk->rendezvous->wait);
  uint64_t now = ring_platform_now();
  if (now >= walk->resume) return slice;
  int pause = (int)((walk->resume - now) / 1000000) + 1;
  return pause < slice ? pause : slice;
}

/* It is no reason to end the search: rank 0 may be one of an attempt that ends, before the next begins. */
static const char *client_formed(const client_walk *walk) {
  return walk->met_formed ? "; a job with this token and these addresses has already formed there"
                          : "";
}

static void client_warn(const client_walk *walk) {
  const ring_rendezvous *rendezvous = walk->rendezvous;
  char ports[128], text[sizeof(((ring_error *)0)->message)];
  ring_rendezvous_ports_text(rendezvous, ports, sizeof ports);
  snprintf(
      text, sizeof text,
      "rank %d has waited %.1f s in open() for rank 0, which it looks for on %s (ports %s)%s%s%s",
      rendezvous->rank, ring_wait_seconds(rendezvous->wait), rendezvous->root_host, ports,
      walk->met_foreign ? "; another job, or one with another token, answered" : "",
      walk->version != 0 ? "; what answered has another version of sparkring" : "",
      client_formed(walk));
  ring_wait_tell(rendezvous->wait, text);
}

/* Walks until rank 0 has opened. *fd is then the connection to it, and *seal its seal. */
static ring_status client_find_root(client_walk *walk, int *fd, ring_seal *seal) {
  const int ports = walk->rendezvous->port_count;
  for (;;) {
    client_step(walk);
    ring_poll_set_reset(&walk->poll_set);
    for (int i = 0; i < ports; i++) {
      client_knock *knock = &walk->knocks[i];
      bool writing = knock->handshake.turn == 0 || knock->handshake.state == RING_HANDSHAKE_WRITING;
      knock->slot = SIZE_MAX;
      if (knock->handshake.fd >= 0)
        knock->slot =
            ring_poll_set_add(&walk->poll_set, knock->handshake.fd, writing ? POLLOUT : POLLIN);
    }
    ring_status status = ring_poll_set_sleep(&walk->poll_set, client_slice(walk));
    if (status != RING_OK) return status;
    uint64_t now = ring_platform_now();
    for (int i = 0; i < ports; i++) {
      client_knock *knock = &walk->knocks[i];
      if (ring_poll_set_ready(&walk->poll_set, knock->slot) && client_hear(walk, i)) {
        *fd = knock->handshake.fd;
        knock->handshake.fd = -1;
        walk->root_port = walk->rendezvous->ports[i];
        return ring_seal_begin(seal, &knock->handshake) ? RING_OK : RING_NO_MEMORY;
      }
      if (knock->handshake.fd >= 0 && now > knock->begun + GUEST_PATIENCE_NS) client_hang_up(knock);
    }
    if (walk->unlike) return RING_MISMATCH;
    status = walk->lack != 0 ? RING_SYSTEM : ring_wait_check(walk->rendezvous->wait);
    if (status == RING_OK && walk->lost != 0 && now - walk->lost > GUEST_RETURN_NS)
      status = RING_PEER_LOST;
    if (status != RING_OK) return status;
    if (ring_wait_lasts(walk->rendezvous->wait)) client_warn(walk);
  }
}

/* ---- The rendezvous -------------------------------------------------------------------------- */

/* Others may let go of some, so it is only told at the deadline. */
static ring_status client_lacks_ports(const client_walk *walk, double seconds, ring_error *error) {
  char ports[64];
  int rank = walk->rendezvous->rank;
  ring_socket_ports_text(ports, sizeof ports);
  return ring_error_set(
      error, RING_SYSTEM, rank, EADDRNOTAVAIL,
      "rank %d could not look for rank 0 on %s: within %.1f s its own host had no "
      "free port to connect from, of %s: widen that range, or find who uses them "
      "up",
      rank, walk->rendezvous->root_host, seconds, ports);
}

/* Rank 0 was lost, or this one was stopped, and the others have gone. */
static ring_status client_lost_root(const client_walk *walk, ring_error *error) {
  const ring_rendezvous *rendezvous = walk->rendezvous;
  double absence = ring_wait_absence(rendezvous->wait);
  if (absence == 0)
    return ring_error_set(error, RING_PEER_LOST, 0, 0,
                          "rank 0 (%s) was lost in open(): rank %d had met it, and it went away "
                          "before all ranks had come",
                          rendezvous->root_host, rendezvous->rank);
  return ring_error_set(error, RING_ABORTED, rendezvous->rank, 0,
                        "rank %d was stopped for %.1f s during open(), and rank 0 (%s) has gone "
                        "meanwhile: peers timed out waiting for this rank",
                        rendezvous->rank, absence, rendezvous->root_host);
}

static ring_status client_explain(const client_walk *walk, ring_status status, ring_error *error) {
  const ring_rendezvous *rendezvous = walk->rendezvous;
  char ports[128];
  ring_rendezvous_ports_text(rendezvous, ports, sizeof ports);
  if (status == RING_ABORTED) return ring_rendezvous_aborted(rendezvous, error);
  if (status == RING_NO_MEMORY) return ring_error_no_memory(error, rendezvous->rank);
  if (walk->unlike)
    return ring_rendezvous_disagree(rendezvous, rendezvous->rank, !rendezvous->encrypted, error);
  if (status == RING_PEER_LOST && walk->lost != 0) return client_lost_root(walk, error);
  if (walk->lack != 0)
    return ring_error_set(error, walk->lack == ENOMEM ? RING_NO_MEMORY : RING_SYSTEM,
                          rendezvous->rank, walk->lack,
                          "rank %d cannot open a connection to rank 0", rendezvous->rank);
  if (status != RING_TIMEOUT)
    return ring_error_set(error, status, rendezvous->rank, 0,
                          "rank %d could not look for rank 0: %s", rendezvous->rank,
                          ring_status_text(status));
  double seconds = ring_wait_seconds(rendezvous->wait);
  if (walk->portless) return client_lacks_ports(walk, seconds, error);
  if (walk->version != 0)
    return ring_error_set(error, RING_TIMEOUT, 0, 0,
                          "rank %d found on %s only a sparkring of wire version %d, and speaks %d: "
                          "install the same version everywhere",
                          rendezvous->rank, rendezvous->root_host, walk->version,
                          RING_WIRE_VERSION);
  if (walk->root_port != 0 && walk->lost == 0)
    return ring_error_set(error, RING_TIMEOUT, -1, 0,
                          "rank %d met rank 0 on %s port %u, but not all of the %d ranks came "
                          "within %.1f s",
                          rendezvous->rank, rendezvous->root_host, (unsigned)walk->root_port,
                          rendezvous->size, seconds);
  return ring_error_set(
      error, RING_TIMEOUT, 0, 0,
      "rank %d did not find rank 0 on %s within %.1f s (ports %s)%s%s%s. Usual causes: rank 0 "
      "never "
      "started (an empty partition never starts an R closure, fewer slots than partitions), a "
      "firewall (open the port range and pass it on all ranks), or a token, job or address list "
      "that differs",
      rendezvous->rank, rendezvous->root_host, seconds, ports,
      walk->lost != 0 ? "; it was there, and went away" : "",
      walk->met_foreign ? "; another job, or one with another token, answered" : "",
      client_formed(walk));
}

/* Finds rank 0 and joins it, again if it goes away: it may have been started anew. */
static ring_status client_run(client_walk *walk, ring_error *error) {
  for (;;) {
    int fd = -1;
    ring_status status = client_find_root(walk, &fd, walk->seal);
    if (status != RING_OK) {
      ring_socket_close(&fd);
      return client_explain(walk, status, error);
    }
    for (int i = 0; i < walk->rendezvous->port_count; i++) client_hang_up(&walk->knocks[i]);
    walk->lost = 0;
    error->status = RING_OK;
    status = ring_rendezvous_join(walk->rendezvous, walk->peers, fd, walk->seal, error);
    ring_socket_close(&fd);
    ring_seal_wipe(walk->seal);
    if (status == RING_OK || error->status != RING_OK) return status;
    ring_peers_close(walk->peers);
    if (status != RING_PEER_LOST) return client_explain(walk, status, error);
    walk->lost = ring_platform_now();
    walk->next = 0;
    walk->pause = GUEST_PAUSE_NS;
  }
}

/* Why rank 0's host has no address. */
static ring_status client_is_lost(const client_walk *walk, ring_status status, const char *reason,
                                  ring_error *error) {
  const ring_rendezvous *rendezvous = walk->rendezvous;
  int lack = walk->resolved.lack;
  if (status == RING_ABORTED) return client_explain(walk, status, error);
  if (lack == ENOMEM) return ring_error_no_memory(error, rendezvous->rank);
  if (lack != 0)
    return ring_error_set(error, RING_SYSTEM, rendezvous->rank, lack,
                          "rank %d cannot resolve the host %s of rank 0", rendezvous->rank,
                          rendezvous->root_host);
  return ring_error_set(
      error, status, 0, 0, "rank %d cannot resolve the host %s of rank 0: %s (after %.1f s)",
      rendezvous->rank, rendezvous->root_host, reason, ring_wait_seconds(rendezvous->wait));
}

/* Looks up where rank 0 is. A name server may be slow, and a new machine not be known to it yet. */
static ring_status client_look_up(client_walk *walk, ring_error *error) {
  const ring_rendezvous *rendezvous = walk->rendezvous;
  ring_wait *wait = rendezvous->wait;
  ring_resolver *resolver = NULL;
  const char *reason;
  for (;;) {
    ring_resolver_answer answer =
        ring_resolver_ask(&resolver, rendezvous->root_host, 1, &walk->resolved, &reason);
    if (answer == RING_RESOLVER_FOUND) return RING_OK;
    ring_status status = ring_wait_check(wait);
    bool unknown = answer == RING_RESOLVER_UNKNOWN && ring_wait_seconds(wait) > GUEST_UNKNOWN_S;
    if (unknown || answer == RING_RESOLVER_FAILED) status = RING_PEER_LOST;
    if (status != RING_OK) {
      ring_resolver_drop(&resolver);
      return client_is_lost(walk, status, reason, error);
    }
    if (ring_wait_lasts(wait)) client_warn(walk);
    int slice = ring_wait_slice(wait), most = answer == RING_RESOLVER_PENDING ? 5 : 100;
    poll(NULL, 0, slice < most ? slice : most);
  }
}

static ring_status client_prepare(client_walk *walk, ring_error *error) {
  const ring_rendezvous *rendezvous = walk->rendezvous;
  ring_status status = client_look_up(walk, error);
  if (status != RING_OK) return status;
  walk->knocks = calloc((size_t)rendezvous->port_count, sizeof *walk->knocks);
  if (walk->knocks == NULL) return ring_error_no_memory(error, rendezvous->rank);
  for (int i = 0; i < rendezvous->port_count; i++) walk->knocks[i].handshake.fd = -1;
  walk->seal = ring_secret_alloc(sizeof *walk->seal);
  return walk->seal != NULL ? RING_OK : ring_error_no_memory(error, rendezvous->rank);
}

ring_status ring_rendezvous_client(ring_rendezvous *rendezvous, ring_peers *peers,
                                   ring_error *error) {
  client_walk walk = {.rendezvous = rendezvous, .peers = peers, .pause = GUEST_PAUSE_NS};
  ring_error local;
  ring_status status = client_prepare(&walk, error);
  if (status == RING_OK) status = client_run(&walk, error != NULL ? error : &local);
  for (int i = 0; walk.knocks != NULL && i < rendezvous->port_count; i++)
    client_hang_up(&walk.knocks[i]);
  free(walk.knocks);
  ring_secret_free(walk.seal, sizeof *walk.seal);
  ring_poll_set_fini(&walk.poll_set);
  return status;
}
