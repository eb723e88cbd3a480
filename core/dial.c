/* SPDX-License-Identifier: Apache-2.0 */
#include "dial.h"

#include <errno.h>
#include <stdlib.h>

#include "error.h"
#include "lookup.h"
#include "platform.h"

#define DIAL_AGAIN_NS UINT64_C(50000000)
#define DIAL_PROBE_FIRST_NS UINT64_C(100000000)
#define DIAL_PROBE_NS UINT64_C(250000000)
#define DIAL_ASK_NS UINT64_C(10000000)        /* until a lookup is asked again */
#define DIAL_ASK_ANEW_NS UINT64_C(500000000)  /* until one is begun anew that nobody answered */
#define DIAL_SILENCE_NS UINT64_C(10000000000) /* for so long */

/* A connection to a lower rank under way; or, to a higher one, which is for that one to make, a
 * probe now and then of whether it is still there. */
struct ring_dial {
  bool probe;
  ring_lookup *lookup; /* under way, or NULL */
  uint64_t asked;      /* when it was begun first */
  ring_resolved resolved;
  int next;       /* address to try after this one */
  uint64_t again; /* when to dial anew; 0 while a connection is being made */
  size_t slot;
  ring_handshake handshake;
};

void ring_dial_hang_up(ring_peers *peers, int rank) {
  ring_dial *dial = peers->peer[rank].dial;
  ring_socket_close(&dial->handshake.fd);
  ring_lookup_drop(&dial->lookup);
  int place = 0;
  while (peers->dialed[place] != rank) place++;
  /* Off the list first: a fork may come between. */
  peers->dialed[place] = peers->dialed[--peers->dialing];
  peers->peer[rank].dial = NULL;
  free(dial);
}

static ring_status dial_unreachable(ring_peers *peers, int rank, int code, ring_error *error) {
  const char *host = ring_peers_host(peers, rank);
  unsigned port = peers->peer[rank].port;
  if (code == ENOMEM) return ring_error_no_memory(error, peers->rank);
  if (ring_socket_lacks(code))
    return ring_error_set(error, RING_SYSTEM, peers->rank, code,
                          "rank %d cannot open a connection to rank %d (%s)", peers->rank, rank,
                          host);
  if (code == EADDRNOTAVAIL) {
    char ports[64];
    ring_socket_ports_text(ports, sizeof ports);
    return ring_error_set(
        error, RING_SYSTEM, peers->rank, code,
        "rank %d cannot connect to rank %d (%s) port %u: the host of rank %d has no "
        "free port to connect from, of %s: widen that range, or find who uses "
        "them up",
        peers->rank, rank, host, port, peers->rank, ports);
  }
  if (code == ECONNREFUSED)
    return ring_error_set(error, RING_PEER_LOST, rank, 0,
                          "rank %d (%s) is gone: nothing listens on its port %u any more", rank,
                          host, port);
  return ring_error_set(error, RING_PEER_LOST, rank, code,
                        "rank %d cannot reach rank %d on %s port %u; if a firewall stands between "
                        "them, open a range and pass it as the port range",
                        peers->rank, rank, host, port);
}

/* Says of a connection that was begun who makes it and which lane it is to be. */
static bool dial_claim(ring_peers *peers, int rank, int fd) {
  ring_dial *dial = peers->peer[rank].dial;
  const ring_strand *strand = peers->peer[rank].strand;
  bool inside = ring_socket_is_inside(fd, &dial->resolved, dial->next - 1);
  ring_claim claim = {.purpose = RING_PURPOSE_LINK,
                      .rank = peers->rank,
                      .size = peers->size,
                      .epoch = peers->epoch,
                      .encrypted = peers->encrypted,
                      .lanes = inside ? peers->inside_lanes : peers->lanes};
  if (strand != NULL) claim.lane = strand->have;
  if (strand != NULL) claim.lanes = strand->lanes;
  return ring_handshake_dial(&dial->handshake, fd, &peers->keys, &claim, rank);
}

/* Tries the next address of the peer's host. `code` is why the last one failed. */
static ring_status dial_next(ring_peers *peers, int rank, int code, ring_error *error) {
  ring_dial *dial = peers->peer[rank].dial;
  ring_socket_close(&dial->handshake.fd);
  dial->again = 0;
  while (dial->next < dial->resolved.count) {
    int fd = ring_socket_dial(&dial->resolved, dial->next++);
    while ((fd == -EMFILE || fd == -ENFILE) && ring_porch_spare(&peers->porch))
      fd = ring_socket_dial(&dial->resolved, dial->next - 1);
    if (fd >= 0) {
      dial->handshake.fd = fd;
      if (dial->probe || dial_claim(peers, rank, fd)) return RING_OK;
      return ring_error_set(error, RING_SYSTEM, -1, 0, "OpenSSL gave no random numbers");
    }
    code = -fd;
  }
  return dial_unreachable(peers, rank, code, error);
}

static void dial_pause(ring_dial *dial, uint64_t pause) {
  ring_socket_close(&dial->handshake.fd);
  dial->again = ring_platform_now() + pause;
}

/* Looks up where a rank is. */
static ring_status dial_ask(ring_peers *peers, int rank, ring_error *error) {
  ring_dial *dial = peers->peer[rank].dial;
  const char *reason, *host = ring_peers_host(peers, rank);
  uint64_t now = ring_platform_now();
  if (dial->asked == 0) dial->asked = now;
  switch (ring_lookup_ask(&dial->lookup, host, peers->peer[rank].port, &dial->resolved, &reason)) {
  case RING_LOOKUP_FOUND:
    return dial_next(peers, rank, EHOSTUNREACH, error);
  case RING_LOOKUP_PENDING:
    dial_pause(dial, DIAL_ASK_NS);
    return RING_OK;
  case RING_LOOKUP_FAILED:
    return dial_unreachable(peers, rank, dial->resolved.lack, error);
  case RING_LOOKUP_SILENT:
    dial_pause(dial, DIAL_ASK_ANEW_NS);
    if (now - dial->asked < DIAL_SILENCE_NS) return RING_OK;
    break;
  case RING_LOOKUP_UNKNOWN:
    break;
  }
  return ring_error_set(error, RING_PEER_LOST, rank, 0,
                        "rank %d cannot resolve the host %s of rank %d: %s", peers->rank, host,
                        rank, reason);
}

static ring_status dial_call(ring_peers *peers, int rank, ring_error *error) {
  ring_dial *dial = peers->peer[rank].dial;
  dial->next = 0;
  if (dial->resolved.count > 0) return dial_next(peers, rank, EHOSTUNREACH, error);
  return dial_ask(peers, rank, error);
}

ring_status ring_dial_want(ring_peers *peers, int rank, ring_error *error) {
  ring_peer *peer = &peers->peer[rank];
  if (peer->dial != NULL) return RING_OK;
  peer->dial = calloc(1, sizeof *peer->dial);
  if (peer->dial == NULL) return ring_error_no_memory(error, peers->rank);
  peer->dial->handshake.fd = -1;
  peer->dial->probe = rank > peers->rank;
  peers->dialed[peers->dialing++] = rank;
  if (!peer->dial->probe) return dial_call(peers, rank, error);
  peer->dial->again = ring_platform_now() + DIAL_PROBE_FIRST_NS;
  return RING_OK;
}

/* A probe that connects has seen the listener of a rank that is still there. */
static ring_status dial_probed(ring_peers *peers, int rank, ring_error *error) {
  ring_dial *dial = peers->peer[rank].dial;
  int code = ring_socket_failure(dial->handshake.fd);
  if (code != 0) return dial_next(peers, rank, code, error);
  dial_pause(dial, DIAL_PROBE_NS);
  return RING_OK;
}

/* The connection failed: another address, or, when it got as far as the handshake, once more. */
static ring_status dial_again(ring_peers *peers, int rank, ring_error *error) {
  ring_dial *dial = peers->peer[rank].dial;
  int code = dial->handshake.system_errno;
  if (code == ENOMEM) return ring_error_no_memory(error, peers->rank);
  bool talked = dial->handshake.turn > 0 || code == 0 || code == ECONNRESET || code == EPIPE;
  if (!talked) return dial_next(peers, rank, code, error);
  dial_pause(dial, DIAL_AGAIN_NS);
  return RING_OK;
}

/* A lane is open: the next one goes to the same address. */
static ring_status dial_done(ring_peers *peers, int rank, ring_error *error) {
  ring_dial *dial = peers->peer[rank].dial;
  bool taken = ring_peers_take(peers, rank, &dial->handshake);
  dial->handshake.fd = -1;
  if (!taken) return ring_peers_starve(peers, ring_socket_lacks(errno) ? errno : ENOMEM, error);
  if (peers->peer[rank].link == NULL) {
    dial->next--;
    return dial_next(peers, rank, EHOSTUNREACH, error);
  }
  ring_dial_hang_up(peers, rank);
  return RING_OK;
}

static ring_status dial_advance(ring_peers *peers, int rank, ring_error *error) {
  ring_dial *dial = peers->peer[rank].dial;
  const char *host = ring_peers_host(peers, rank);
  switch (ring_handshake_advance(&dial->handshake)) {
  case RING_HANDSHAKE_DONE:
    return dial_done(peers, rank, error);
  case RING_HANDSHAKE_LOST:
    return dial_again(peers, rank, error);
  case RING_HANDSHAKE_REFUSED:
    if (dial->handshake.verdict == RING_VERDICT_UNLIKE)
      return ring_peers_disagree(peers, rank, error);
    ring_socket_close(&dial->handshake.fd);
    return ring_error_set(error, RING_ABORTED, rank, 0, "rank %d (%s) refused a link: %s", rank,
                          host, ring_verdict_text(dial->handshake.verdict));
  case RING_HANDSHAKE_STRANGER:
  case RING_HANDSHAKE_VERSION:
    return ring_error_set(error, RING_AUTH, rank, 0,
                          "what answers on the port of rank %d (%s) cannot prove that it belongs "
                          "to this job",
                          rank, host);
  default:
    return RING_OK;
  }
}

void ring_dial_watch(ring_peers *peers, ring_poller *poller) {
  for (int i = 0; i < peers->dialing; i++) {
    ring_dial *dial = peers->peer[peers->dialed[i]].dial;
    if (dial->again != 0) continue;
    bool writing = dial->handshake.state == RING_HANDSHAKE_WRITING || dial->handshake.turn == 0;
    dial->slot = ring_poller_add(poller, dial->handshake.fd, writing ? POLLOUT : POLLIN);
  }
}

ring_status ring_dial_serve(ring_peers *peers, const ring_poller *poller, ring_error *error) {
  if (peers->dialing == 0) return RING_OK;
  uint64_t now = ring_platform_now();
  for (int i = peers->dialing - 1; i >= 0; i--) { /* one that ends is replaced by a later one */
    int rank = peers->dialed[i];
    ring_dial *dial = peers->peer[rank].dial;
    ring_status status = RING_OK;
    if (dial->again == 0 && ring_poller_ready(poller, dial->slot))
      status = dial->probe ? dial_probed(peers, rank, error) : dial_advance(peers, rank, error);
    else if (dial->again != 0 && now >= dial->again)
      status = dial_call(peers, rank, error);
    if (status != RING_OK) return status;
  }
  return RING_OK;
}
