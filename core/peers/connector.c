/* SPDX-License-Identifier: Apache-2.0 */
#include "peers/connector.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/platform.h"
#include "transport/resolver.h"

#define CONNECTOR_RETRY_NS UINT64_C(50000000)
#define CONNECTOR_PROBE_FIRST_NS UINT64_C(100000000)
#define CONNECTOR_PROBE_NS UINT64_C(250000000)
#define CONNECTOR_RESOLVE_NS UINT64_C(10000000) /* until a lookup is polled again */
#define CONNECTOR_RESOLVE_RETRY_NS                                                                 \
  UINT64_C(500000000) /* until a lookup that had no answer is repeated */
#define CONNECTOR_RESOLVE_TIMEOUT_NS UINT64_C(10000000000) /* when the repetition ends */

/* A connection to a lower rank, or a probe of the listener of a higher rank. */
struct ring_connector {
  bool probe;
  ring_resolver *resolver;  /* a lookup under way, or NULL */
  uint64_t resolving_since; /* when the first lookup began; 0: none has */
  ring_resolved resolved;
  int next;          /* index of the address to try next */
  uint64_t retry_at; /* when to connect again; 0 while a connection is being made */
  size_t slot;
  ring_handshake handshake;
};

void ring_connector_cancel(ring_peers *peers, int rank) {
  ring_connector *connector = peers->peer[rank].connector;
  ring_socket_close(&connector->handshake.fd);
  ring_resolver_drop(&connector->resolver);
  int place = 0;
  while (peers->connecting[place] != rank) place++;
  /* Off the list first, because the process may fork between the two. */
  peers->connecting[place] = peers->connecting[--peers->connecting_count];
  peers->peer[rank].connector = NULL;
  free(connector);
}

static ring_status connector_unreachable(ring_peers *peers, int rank, int code, ring_error *error) {
  const char *name = ring_peers_name(peers, rank);
  unsigned port = peers->peer[rank].port;
  if (code == ENOMEM) return ring_error_no_memory(error, peers->rank);
  if (ring_socket_lacks(code))
    return ring_error_set(error, RING_SYSTEM, peers->rank, code,
                          "rank %d cannot open a connection to rank %d (%s)", peers->rank, rank,
                          name);
  if (code == EADDRNOTAVAIL) {
    char ports[64];
    ring_socket_ports_text(ports, sizeof ports);
    return ring_error_set(
        error, RING_SYSTEM, peers->rank, code,
        "rank %d cannot connect to rank %d (%s) port %u: the host of rank %d has no "
        "free port to connect from, of %s: widen that range, or find the processes "
        "that use its ports",
        peers->rank, rank, name, port, peers->rank, ports);
  }
  peers->peer[rank].gone = code == ECONNREFUSED;
  if (code == ECONNREFUSED)
    return ring_error_set(error, RING_PEER_LOST, rank, 0,
                          "rank %d (%s) is gone: nothing listens on its port %u any more", rank,
                          name, port);
  return ring_error_set(error, RING_PEER_LOST, rank, code,
                        "rank %d cannot reach rank %d on %s port %u; if a firewall stands between "
                        "them, open a range and pass it as the port range",
                        peers->rank, rank, ring_peers_host(peers, rank), port);
}

/* Begins the handshake: the claim names this rank and the number of the connection in its link. */
static bool connector_claim(ring_peers *peers, int rank, int fd) {
  ring_connector *connector = peers->peer[rank].connector;
  const ring_pending_link *pending_link = peers->peer[rank].pending_link;
  bool inside = ring_socket_is_inside(fd, &connector->resolved, connector->next - 1);
  ring_claim claim = {.purpose = RING_PURPOSE_LINK,
                      .rank = peers->rank,
                      .size = peers->size,
                      .epoch = peers->epoch,
                      .encrypted = peers->encrypted,
                      .connections = inside ? peers->inside_connections : peers->connections};
  if (pending_link != NULL) claim.connection = pending_link->have;
  if (pending_link != NULL) claim.connections = pending_link->connections;
  return ring_handshake_connect(&connector->handshake, fd, &peers->keys, &claim, rank);
}

/* Tries the next address of the peer's host. `code`: errno of the last one. */
static ring_status connector_next(ring_peers *peers, int rank, int code, ring_error *error) {
  ring_connector *connector = peers->peer[rank].connector;
  ring_socket_close(&connector->handshake.fd);
  connector->retry_at = 0;
  while (connector->next < connector->resolved.count) {
    int fd = ring_socket_connect(&connector->resolved, connector->next++);
    while ((fd == -EMFILE || fd == -ENFILE) && ring_acceptor_drop(&peers->acceptor))
      fd = ring_socket_connect(&connector->resolved, connector->next - 1);
    if (fd >= 0) {
      connector->handshake.fd = fd;
      if (connector->probe || connector_claim(peers, rank, fd)) return RING_OK;
      return ring_error_set(error, RING_SYSTEM, -1, 0, "OpenSSL gave no random numbers");
    }
    code = -fd;
  }
  return connector_unreachable(peers, rank, code, error);
}

static void connector_pause(ring_connector *connector, uint64_t pause) {
  ring_socket_close(&connector->handshake.fd);
  connector->retry_at = ring_platform_now() + pause;
}

/* Looks up the addresses of a rank, then connects. */
static ring_status connector_resolve(ring_peers *peers, int rank, ring_error *error) {
  ring_connector *connector = peers->peer[rank].connector;
  const char *reason, *host = ring_peers_host(peers, rank);
  uint64_t now = ring_platform_now();
  if (connector->resolving_since == 0) connector->resolving_since = now;
  switch (ring_resolver_ask(&connector->resolver, host, peers->peer[rank].port,
                            &connector->resolved, &reason)) {
  case RING_RESOLVER_FOUND:
    return connector_next(peers, rank, EHOSTUNREACH, error);
  case RING_RESOLVER_PENDING:
    connector_pause(connector, CONNECTOR_RESOLVE_NS);
    return RING_OK;
  case RING_RESOLVER_FAILED:
    return connector_unreachable(peers, rank, connector->resolved.lack, error);
  case RING_RESOLVER_SILENT:
    connector_pause(connector, CONNECTOR_RESOLVE_RETRY_NS);
    if (now - connector->resolving_since < CONNECTOR_RESOLVE_TIMEOUT_NS) return RING_OK;
    break;
  case RING_RESOLVER_UNKNOWN:
    break;
  }
  return ring_error_set(error, RING_PEER_LOST, rank, 0,
                        "rank %d cannot resolve the host %s of rank %d: %s", peers->rank, host,
                        rank, reason);
}

static ring_status connector_begin(ring_peers *peers, int rank, ring_error *error) {
  ring_connector *connector = peers->peer[rank].connector;
  connector->next = 0;
  if (connector->resolved.count > 0) return connector_next(peers, rank, EHOSTUNREACH, error);
  return connector_resolve(peers, rank, error);
}

ring_status ring_connector_start(ring_peers *peers, int rank, ring_error *error) {
  ring_peer *peer = &peers->peer[rank];
  if (peer->connector != NULL) return RING_OK;
  peer->connector = calloc(1, sizeof *peer->connector);
  if (peer->connector == NULL) return ring_error_no_memory(error, peers->rank);
  peer->connector->handshake.fd = -1;
  peer->connector->probe = rank > peers->rank;
  peers->connecting[peers->connecting_count++] = rank;
  if (!peer->connector->probe) return connector_begin(peers, rank, error);
  peer->connector->retry_at = ring_platform_now() + CONNECTOR_PROBE_FIRST_NS;
  return RING_OK;
}

/* A probe that connects shows that the rank still listens. */
static ring_status connector_probed(ring_peers *peers, int rank, ring_error *error) {
  ring_connector *connector = peers->peer[rank].connector;
  int code = ring_socket_failure(connector->handshake.fd);
  if (code != 0) return connector_next(peers, rank, code, error);
  connector_pause(connector, CONNECTOR_PROBE_NS);
  return RING_OK;
}

/* After a failed connection: tries the next address or, if the handshake had begun, the same one
 * again. */
static ring_status connector_retry(ring_peers *peers, int rank, ring_error *error) {
  ring_connector *connector = peers->peer[rank].connector;
  int code = connector->handshake.system_errno;
  if (code == ENOMEM) return ring_error_no_memory(error, peers->rank);
  bool shaking_hands =
      connector->handshake.turn > 0 || code == 0 || code == ECONNRESET || code == EPIPE;
  if (!shaking_hands) return connector_next(peers, rank, code, error);
  connector_pause(connector, CONNECTOR_RETRY_NS);
  return RING_OK;
}

/* Adds the connection to its link. The next connection of the link goes to the same address. */
static ring_status connector_done(ring_peers *peers, int rank, ring_error *error) {
  ring_connector *connector = peers->peer[rank].connector;
  bool taken = ring_peers_add_connection(peers, rank, &connector->handshake);
  connector->handshake.fd = -1;
  if (!taken) return ring_peers_exhausted(peers, ring_socket_lacks(errno) ? errno : ENOMEM, error);
  if (peers->peer[rank].link == NULL) {
    connector->next--;
    return connector_next(peers, rank, EHOSTUNREACH, error);
  }
  ring_connector_cancel(peers, rank);
  return RING_OK;
}

static ring_status connector_advance(ring_peers *peers, int rank, ring_error *error) {
  ring_connector *connector = peers->peer[rank].connector;
  const char *name = ring_peers_name(peers, rank);
  switch (ring_handshake_advance(&connector->handshake)) {
  case RING_HANDSHAKE_DONE:
    return connector_done(peers, rank, error);
  case RING_HANDSHAKE_LOST:
    return connector_retry(peers, rank, error);
  case RING_HANDSHAKE_REFUSED:
    if (connector->handshake.answer == RING_ANSWER_UNLIKE)
      return ring_peers_mismatch(peers, rank, error);
    ring_socket_close(&connector->handshake.fd);
    return ring_error_set(error, RING_ABORTED, rank, 0, "rank %d (%s) refused a link: %s", rank,
                          name, ring_answer_text(connector->handshake.answer));
  case RING_HANDSHAKE_OUTSIDER:
  case RING_HANDSHAKE_VERSION:
    return ring_error_set(error, RING_AUTH, rank, 0,
                          "what answers on the port of rank %d (%s) cannot prove that it belongs "
                          "to this job",
                          rank, name);
  default:
    return RING_OK;
  }
}

void ring_connector_watch(ring_peers *peers, ring_poll_set *poll_set) {
  for (int i = 0; i < peers->connecting_count; i++) {
    ring_connector *connector = peers->peer[peers->connecting[i]].connector;
    if (connector->retry_at != 0) continue;
    bool writing =
        connector->handshake.state == RING_HANDSHAKE_WRITING || connector->handshake.turn == 0;
    connector->slot =
        ring_poll_set_add(poll_set, connector->handshake.fd, writing ? POLLOUT : POLLIN);
  }
}

ring_status ring_connector_serve(ring_peers *peers, const ring_poll_set *poll_set,
                                 ring_error *error) {
  if (peers->connecting_count == 0) return RING_OK;
  uint64_t now = ring_platform_now();
  for (int i = peers->connecting_count - 1; i >= 0;
       i--) { /* from the end: a cancelled entry is replaced by the last one */
    int rank = peers->connecting[i];
    ring_connector *connector = peers->peer[rank].connector;
    ring_status status = RING_OK;
    if (connector->retry_at == 0 && ring_poll_set_ready(poll_set, connector->slot))
      status = connector->probe ? connector_probed(peers, rank, error)
                                : connector_advance(peers, rank, error);
    else if (connector->retry_at != 0 && now >= connector->retry_at)
      status = connector_begin(peers, rank, error);
    if (status != RING_OK) return status;
  }
  return RING_OK;
}
