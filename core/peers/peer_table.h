/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of ranks.
 */
#ifndef RING_PEERS_PEER_TABLE_H
#define RING_PEERS_PEER_TABLE_H

#include <stdatomic.h>

#include "auth/secret.h"
#include "peers/acceptor.h"
#include "peers/outbox.h"
#include "transport/link.h"

typedef struct ring_connector ring_connector;

/* Messages between this rank and another one so far. */
typedef struct ring_messages {
  uint32_t sent, received;
} ring_messages;

/* Processors of this host for its ranks. */
typedef enum ring_cores {
  RING_CORES_SUFFICE, /* one for each */
  RING_CORES_SHARED,
  RING_CORES_CROWDED /* so few that a rank is better not run at all while it waits */
} ring_cores;

/* The connections so far of a link that opens: connection after connection, the connecting side says how many. */
typedef struct ring_pending_link {
  int connections, have;
  int fd[RING_CONNECTIONS_MAX];
  ring_secret key; /* of an encrypted link: that of its first connection */
} ring_pending_link;

typedef struct ring_peer {
  int host; /* index into hosts */
  uint16_t port;
  bool ended;       /* its end of the link is closed, or frames can no longer be told apart */
  bool hung_up;     /* it takes no more; what it said before can still be read */
  bool told;        /* that this rank has failed */
  bool early;       /* it is ahead: its next bytes belong to a later step or call */
  bool outbox_busy; /* part of a wait report has to be sent, or to come, before the next frame */
  ring_link *link;  /* NULL until it is needed */
  /* The link's, or NULL. Other threads read it while this one opens and closes links, and so never
   * look at the link itself. */
  _Atomic(const char *) link_name;
  ring_connector *connector; /* a connection under way */
  ring_pending_link *pending_link;
  ring_outbox *outbox; /* as long as there is a link */
  int connections;     /* of the link */
  size_t slot;         /* in the poll set, while the engine sleeps */
  void *out, *in;      /* pipes in memory that both have; NULL: there is none */
  ring_messages messages;
  uint32_t heard; /* number of the engine's run in which it last sent something; 0: never */
  ring_counters counters;
} ring_peer;

typedef struct ring_peers {
  int rank, size;
  uint64_t epoch;
  bool authenticated;
  bool exchanged; /* an exchange, by which the ranks met, may not have let go of all yet */
  bool encrypted; /* what is said between them, but for what lies in memory of both */
  ring_keys keys;
  char **hosts; /* the different hosts, in order of their first rank */
  int host_count;
  ring_peer *peer; /* by rank */
  int *buckets;    /* of a hash of the hosts: index + 1, or 0; NULL until there is one */
  int *linked;     /* ranks with a link, in the order in which they opened */
  int linked_count;
  int *connecting; /* ranks to which a connection is under way */
  int connecting_count;
  int pending_links; /* links that open now */
  int connections,
      inside_connections; /* of links that this rank connects to, to other hosts and within its own */
  int starved; /* errno: there was no memory or descriptor for a link that another rank opened */
  int unlike;  /* the rank, never 0, that opened one and does not want the same encryption */
  ring_cores cores;
  ring_acceptor acceptor;
  ring_acceptor annex; /* while opening, on the rank that hands out the memory of its host */
} ring_peers;

ring_status ring_peers_init(ring_peers *peers, int rank, int size);

/* Says that a rank and this one have RING_PIPE_BYTES in memory for what each sends to the other. The
 * link that they may have goes through it from now on, unless it is one of several connections, which stays:
 * nothing is under way on it. */
ring_status ring_peers_set_pipe(ring_peers *peers, int rank, void *out, void *in);

/* Says where a rank is. */
ring_status ring_peers_place(ring_peers *peers, int rank, const char *host, uint16_t port);

/* Index of a host, which is added if it is new; -1 without memory. */
int ring_peers_add_host(ring_peers *peers, const char *host);

/* Forgets all places. */
void ring_peers_clear_places(ring_peers *peers);

const char *ring_peers_host(const ring_peers *peers, int rank);

/* Takes a connection, proved to be a rank's, as the next connection of its link, which opens with the last
 * one. False without memory, when it is closed, and so are those before it; errno may tell what else
 * was missing. */
bool ring_peers_add_connection(ring_peers *peers, int rank, const ring_handshake *proven);

/* Closes all links, and the connections of pending links. */
void ring_peers_unlink(ring_peers *peers);

/* Why there can be no link: only one of this rank and another wants encryption; this one lacks what
 * errno says. */
ring_status ring_peers_mismatch(const ring_peers *peers, int rank, ring_error *error);
ring_status ring_peers_exhausted(const ring_peers *peers, int code, ring_error *error);

#endif
