/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of ranks: for each rank its host and port, and its link once it is open. Data, and the
 * functions that change it without a decision: connector.h makes connections, peers.h accepts and
 * closes.
 */
#ifndef RING_PEERS_PEER_TABLE_H
#define RING_PEERS_PEER_TABLE_H

#include <stdatomic.h>

#include "auth/secret.h"
#include "peers/acceptor.h"
#include "peers/outbox.h"
#include "transport/link.h"

typedef struct ring_connector ring_connector;

/* Messages between this rank and a peer so far. */
typedef struct ring_message_counts {
  uint32_t sent, received;
} ring_message_counts;

/* Processors of this host for its ranks. */
typedef enum ring_cores {
  RING_CORES_SUFFICE, /* one for each */
  RING_CORES_SHARED,
  RING_CORES_CROWDED /* so few that a waiting rank should not run at all */
} ring_cores;

/* A link that is not open yet: its connections so far. The connecting side decides how many there
 * are. */
typedef struct ring_pending_link {
  int connections, have;
  int fd[RING_CONNECTIONS_MAX];
  ring_secret key; /* of an encrypted link: that of its first connection */
} ring_pending_link;

typedef struct ring_peer {
  int host;       /* index into hosts */
  int world_rank; /* in the communicator that was opened first, which split() divided */
  char *name;     /* of the host in errors, with that number; NULL: the host */
  uint16_t port;
  bool gone;         /* its port refuses connections: the process or its communicator has ended */
  bool ended;        /* the peer has closed the link, or the ends of frames are lost */
  bool write_closed; /* the link takes no more bytes; bytes received before can still be read */
  bool failure_sent; /* the failure of this rank has been sent to the peer */
  bool early;        /* the peer is ahead: its next bytes belong to a later step or call */
  bool outbox_busy;  /* the outbox holds part of a wait report, which goes before the next frame */
  ring_link *link;   /* NULL until it is needed */
  /* The name of the link, or NULL. Other threads read it while the thread of the communicator opens
   * and closes the link, so they never read the link itself. */
  _Atomic(const char *) link_name;
  ring_connector *connector; /* a connection or probe under way, or NULL */
  ring_pending_link *pending_link;
  ring_outbox *outbox; /* as long as there is a link */
  int connections;     /* of the link */
  size_t slot;         /* in the poll set, while the engine sleeps */
  void *out, *in;      /* pipes in shared memory; NULL: there are none */
  ring_message_counts messages;
  uint32_t last_run; /* of the engine in which the peer last sent something; 0: never */
  ring_counters counters;
} ring_peer;

typedef struct ring_peers {
  int rank, size;
  uint64_t epoch;
  bool authenticated;
  bool exchanged; /* the ranks used an exchange, which some of them may not have left yet */
  bool encrypted; /* all links, except pipes in shared memory */
  ring_keys keys;
  char **hosts; /* the different hosts, in order of their first rank */
  int host_count;
  ring_peer *peer; /* by rank */
  int *buckets;    /* of a hash table of the hosts: index + 1, or 0; NULL until there is a host */
  int *linked;     /* ranks with a link, in the order in which the links opened */
  int linked_count;
  int *connecting; /* ranks to which a connection or probe is under way */
  int connecting_count;
  int pending_links;                   /* how many */
  int connections, inside_connections; /* of a link to another host, and to this host */
  int starved; /* errno: no memory or descriptor for a link that a peer opened; else 0 */
  int unlike;  /* the rank whose wish for encryption differs, never 0; else 0 */
  ring_cores cores;
  ring_acceptor acceptor;
  ring_acceptor shm_acceptor; /* in open(), on the rank that serves the shared memory of its host */
} ring_peers;

/* RING_NO_MEMORY: ring_peers_fini frees what was allocated. */
ring_status ring_peers_init(ring_peers *peers, int rank, int size);

/* Sets where a rank is. RING_NO_MEMORY. */
ring_status ring_peers_place(ring_peers *peers, int rank, const char *host, uint16_t port);

/* The index of a host, which is added if it is new. -1 without memory. */
int ring_peers_add_host(ring_peers *peers, const char *host);

/* Removes all hosts. */
void ring_peers_clear_places(ring_peers *peers);

const char *ring_peers_host(const ring_peers *peers, int rank);

/* Numbers a rank of a child of split() in the world. */
void ring_peers_number(ring_peers *peers, int rank, int world_rank);

/* The host of a rank as errors name it: with its number in the world, if that is another. */
const char *ring_peers_name(const ring_peers *peers, int rank);

/* The rank with this number in the world; -1: it is not among the peers. */
int ring_peers_find(const ring_peers *peers, int world_rank);

/* Adds a connection whose handshake is done to the link of a rank. The link opens with its last
 * connection. False without memory: the connections of the link are closed, and errno is set when
 * something else was lacking. */
bool ring_peers_add_connection(ring_peers *peers, int rank, const ring_handshake *proven);

/* Sets the pipes in shared memory, RING_PIPE_BYTES for each direction, between this rank and a
 * peer. An open link of one connection is replaced by one through the pipes, so no bytes may be
 * under way on it. A link of several connections stays. */
ring_status ring_peers_set_pipe(ring_peers *peers, int rank, void *out, void *in);

/* Closes the link to a rank. */
void ring_peers_drop(ring_peers *peers, int rank);

/* Closes all links, and the connections of pending links. */
void ring_peers_unlink(ring_peers *peers);

/* Errors of a link that cannot open: only one of the two ranks wants encryption; this rank lacks
 * something (the errno `code`). */
ring_status ring_peers_mismatch(const ring_peers *peers, int rank, ring_error *error);
ring_status ring_peers_exhausted(const ring_peers *peers, int code, ring_error *error);

#endif
