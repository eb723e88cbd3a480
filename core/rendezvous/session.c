/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "transport/socket.h"

#define SESSION_PORT_FIRST 21000
#define SESSION_PORT_LAST 31999

ring_status ring_rendezvous_aborted(const ring_rendezvous *rendezvous, ring_error *error) {
  return ring_wait_aborted(rendezvous->wait, rendezvous->rank, "open()", error);
}

ring_status ring_rendezvous_tampered(int rank, const char *host, ring_error *error) {
  return ring_error_set(error, RING_AUTH, rank, 0,
                        "what came over the connection to rank %d (%s) is not what it has sent: "
                        "something between changes it",
                        rank, host);
}

ring_status ring_rendezvous_mismatch(const ring_rendezvous *rendezvous, int odd,
                                     bool root_encrypted, ring_error *error) {
  bool hosts = rendezvous->hosts != NULL;
  return ring_error_set(error, RING_MISMATCH, odd == rendezvous->rank ? 0 : odd, 0,
                        "rank %d%s%s%s wants %s, and rank 0 (%s) wants %s: pass the same on all "
                        "ranks",
                        odd, hosts ? " (" : "", hosts ? rendezvous->hosts[odd] : "",
                        hosts ? ")" : "", root_encrypted ? "no encryption" : "encryption",
                        rendezvous->root_host, root_encrypted ? "it" : "none");
}

ring_status ring_rendezvous_no_crypto(ring_error *error) {
  return ring_error_set(error, RING_SYSTEM, -1, 0,
                        "OpenSSL refused to compute HMAC-SHA256 or X25519, or to give random "
                        "numbers");
}

/* ---- Key and ports ------------------------------------------------------------------------ */

/* Binds the key to all hosts, each with its terminating zero. */
static bool session_bind_hosts(const ring_rendezvous *rendezvous, ring_secret *key) {
  size_t length = 0;
  for (int rank = 0; rank < rendezvous->size; rank++) length += strlen(rendezvous->hosts[rank]) + 1;
  /* NOLINTNEXTLINE(clang-analyzer-optin.portability.UnixAPI): there is at least one rank */
  char *list = malloc(length), *to = list;
  for (int rank = 0; list != NULL && rank < rendezvous->size; rank++)
    to = stpcpy(to, rendezvous->hosts[rank]) + 1;
  bool bound = list != NULL && ring_secret_bind(key, list, length);
  free(list);
  return bound;
}

/* The job's key covers everything that ranks of one job must agree on. */
static bool session_derive(const ring_rendezvous *rendezvous, ring_secret *key) {
  uint8_t size[4] = {(uint8_t)rendezvous->size, (uint8_t)(rendezvous->size >> 8),
                     (uint8_t)(rendezvous->size >> 16), (uint8_t)(rendezvous->size >> 24)};
  bool bound = ring_secret_begin(key, rendezvous->token, rendezvous->token_length) &&
               ring_secret_bind(key, rendezvous->job, strlen(rendezvous->job)) &&
               ring_secret_bind(key, size, sizeof size);
  if (rendezvous->hosts == NULL)
    return bound && ring_secret_bind(key, rendezvous->root_host, strlen(rendezvous->root_host));
  return bound && session_bind_hosts(rendezvous, key);
}

static bool session_port_used(const ring_rendezvous *rendezvous, uint16_t port) {
  for (int i = 0; i < rendezvous->port_count; i++)
    if (rendezvous->ports[i] == port) return true;
  return false;
}

/* Draws different ports from the range. Only the key determines them and their order. */
static bool session_draw_ports(ring_rendezvous *rendezvous, const ring_keys *keys) {
  uint32_t first = rendezvous->port_first == 0 ? SESSION_PORT_FIRST : rendezvous->port_first;
  uint32_t last = rendezvous->port_first == 0 ? SESSION_PORT_LAST : rendezvous->port_last;
  uint32_t range = last - first + 1;
  int wanted = range < RING_RENDEZVOUS_PORTS ? (int)range : RING_RENDEZVOUS_PORTS;
  for (rendezvous->port_count = 0; rendezvous->port_count < wanted; rendezvous->port_count++) {
    uint8_t index = (uint8_t)rendezvous->port_count;
    ring_secret draw;
    if (!ring_keys_mac(keys, &index, 1, &draw)) return false;
    uint32_t offset =
        ((uint32_t)draw.bytes[0] | (uint32_t)draw.bytes[1] << 8 | (uint32_t)draw.bytes[2] << 16) %
        range;
    while (session_port_used(rendezvous, (uint16_t)(first + offset))) offset = (offset + 1) % range;
    rendezvous->ports[rendezvous->port_count] = (uint16_t)(first + offset);
  }
  return true;
}

bool ring_rendezvous_begin(ring_rendezvous *rendezvous, ring_keys *keys) {
  return session_derive(rendezvous, &keys->vault->job) && session_draw_ports(rendezvous, keys);
}

void ring_rendezvous_ports_text(const ring_rendezvous *rendezvous, char *text, size_t size) {
  size_t length = 0;
  text[0] = '\0';
  for (int i = 0; i < rendezvous->port_count && i < 4 && length < size; i++)
    length += (size_t)snprintf(text + length, size - length, "%s%u", i == 0 ? "" : ", ",
                               (unsigned)rendezvous->ports[i]);
  if (rendezvous->port_count > 4 && length < size)
    snprintf(text + length, size - length, " and %d more", rendezvous->port_count - 4);
}

static void session_no_port(const ring_rendezvous *rendezvous, ring_error *error) {
  char ports[64];
  ring_socket_ports_text(ports, sizeof ports);
  if (rendezvous->port_first == 0)
    ring_error_set(error, RING_SYSTEM, rendezvous->rank, EADDRINUSE,
                   "rank %d found no free port to listen on: its host has none left of %s",
                   rendezvous->rank, ports);
  else
    ring_error_set(error, RING_SYSTEM, rendezvous->rank, EADDRINUSE,
                   "rank %d found no free port from %u to %u: a host needs one for each of its "
                   "ranks, and each of these another one for every communicator that is split off",
                   rendezvous->rank, (unsigned)rendezvous->port_first,
                   (unsigned)rendezvous->port_last);
}

int ring_rendezvous_listen(const ring_rendezvous *rendezvous, ring_error *error) {
  const char *host =
      rendezvous->hosts != NULL ? rendezvous->hosts[rendezvous->rank] : rendezvous->root_host;
  uint32_t range = (uint32_t)(rendezvous->port_last - rendezvous->port_first) + 1;
  uint32_t start = 0;
  int fd = -EADDRINUSE;
  if (!ring_secret_random(&start, sizeof start)) {
    ring_rendezvous_no_crypto(error);
    return -1;
  }
  for (uint32_t i = 0; i < range && fd == -EADDRINUSE; i++) {
    uint32_t port = rendezvous->port_first + (start % range + i) % range;
    fd = ring_socket_listen(host, (uint16_t)port);
  }
  if (fd >= 0) return fd;
  if (fd != -EADDRINUSE)
    ring_error_set(error, RING_SYSTEM, rendezvous->rank, -fd, "rank %d cannot listen on %s",
                   rendezvous->rank, host);
  else
    session_no_port(rendezvous, error);
  return -1;
}

int ring_rendezvous_port(const ring_rendezvous *rendezvous, int listener, ring_error *error) {
  int port = ring_socket_port(listener);
  if (port > 0) return port;
  ring_error_set(error, RING_SYSTEM, rendezvous->rank, -port,
                 "rank %d cannot find out on which port it listens", rendezvous->rank);
  return -1;
}

void ring_rendezvous_warn(const ring_rendezvous *rendezvous) {
  char text[sizeof(((ring_error *)0)->message)];
  if (rendezvous->rank == 0 || !ring_wait_lasts(rendezvous->wait)) return;
  snprintf(
      text, sizeof text,
      "rank %d has waited %.1f s in open(): it has joined rank 0 (%s), which waits for other ranks",
      rendezvous->rank, ring_wait_seconds(rendezvous->wait), rendezvous->root_host);
  ring_wait_warn(rendezvous->wait, text);
}
