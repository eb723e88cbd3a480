/* SPDX-License-Identifier: Apache-2.0
 *
 * How every rank learns where all ranks are: the table of places travels from rank 0 down the
 * binomial tree of ranks, over links. The parent of a rank is what is left of its number without
 * the lowest bit that is set, so tree links have distances that are powers of two, as those of a
 * ring, of doubling, of dissemination and of a broadcast do, and are used again. A rank connects to its
 * parent, which is lower, and so nothing but the parent's place has to be known before.
 *
 *   TABLE     length u32 of what follows, hosts u32, each host: length u8, text; then each rank:
 *             index of its host (0 to 3 bytes, as few as the number of hosts allows), port u16;
 *             then HMAC(HMAC(job's key, "sparkring table 1" and the epoch), from hosts on), because
 *             links that are not encrypted keep nobody from changing what they carry
 */
#ifndef RING_RENDEZVOUS_ADDRESS_TABLE_H
#define RING_RENDEZVOUS_ADDRESS_TABLE_H

#include "peers/peers.h"

#define RING_ADDRESS_TABLE_CHILDREN 31

typedef struct ring_address_table {
  ring_peers *peers;
  int parent;     /* -1: of rank 0 */
  bool informed;  /* this rank knows all places */
  uint8_t *table; /* NULL until its length is known */
  uint8_t head[4];
  size_t length, have; /* of head and table */
  int child_count;
  int children[RING_ADDRESS_TABLE_CHILDREN];
  size_t sent[RING_ADDRESS_TABLE_CHILDREN];
} ring_address_table;

/* The parent of a rank in the tree; -1 of rank 0. */
int ring_address_table_parent(int rank);

/* Reads the places of all ranks from what stands between the length of a TABLE and its HMAC.
 * RING_PEER_LOST when it is none. */
ring_status ring_address_table_unpack(ring_peers *peers, const uint8_t *table, size_t length);

/* Begins. Rank 0 knows all places, the others that of their parent; all listen for links. */
ring_status ring_address_table_begin(ring_address_table *address_table, ring_peers *peers,
                                     ring_error *error);

void ring_address_table_free(ring_address_table *address_table);

/* Before and after a sleep; both see to the peers, too. Children are served until the caller knows
 * that all ranks are informed. */
void ring_address_table_watch(const ring_address_table *address_table, ring_poll_set *poll_set);
ring_status ring_address_table_serve(ring_address_table *address_table,
                                     const ring_poll_set *poll_set, ring_error *error);

#endif
