/* SPDX-License-Identifier: Apache-2.0
 *
 * The broadcast of the address table: hosts and ports of all ranks travel from rank 0 down the
 * binomial tree of ranks, over links. The parent of a rank is its number without the lowest bit
 * that is set. So tree links have distances that are powers of two, as the links of a ring, of
 * doubling, of dissemination and of a broadcast have, and are used again. A rank connects to its
 * parent, which is lower, so the parent's address is all that it needs before.
 *
 *   TABLE     length u32 of what follows, hosts u32, each host: length u8, text; then each rank:
 *             index of its host (0 to 3 bytes, as few as the number of hosts allows), port u16;
 *             then HMAC(HMAC(job's key, "sparkring table 1" and the epoch), from hosts on), because a
 *             link without encryption does not detect changed bytes
 */
#ifndef RING_RENDEZVOUS_ADDRESS_TABLE_H
#define RING_RENDEZVOUS_ADDRESS_TABLE_H

#include "peers/peers.h"

#define RING_ADDRESS_TABLE_CHILDREN 31

typedef struct ring_address_table {
  ring_peers *peers;
  int parent;     /* -1: of rank 0 */
  bool informed;  /* this rank has the table */
  uint8_t *table; /* NULL until the length is known */
  uint8_t head[4];
  size_t length, have; /* of head and table */
  int child_count;
  int children[RING_ADDRESS_TABLE_CHILDREN];
  size_t sent[RING_ADDRESS_TABLE_CHILDREN];
} ring_address_table;

/* The parent of a rank in the tree; -1 of rank 0. */
int ring_address_table_parent(int rank);

/* Reads the addresses of all ranks from the bytes between the length of a TABLE and its HMAC.
 * RING_PEER_LOST for malformed bytes. */
ring_status ring_address_table_unpack(ring_peers *peers, const uint8_t *table, size_t length);

/* Begins. Rank 0 knows all addresses, any other rank that of its parent; all listen for links. */
ring_status ring_address_table_begin(ring_address_table *address_table, ring_peers *peers,
                                     ring_error *error);

void ring_address_table_free(ring_address_table *address_table);

/* Before and after a sleep. Both serve the peers, too. The caller serves children until it knows
 * that all ranks have the table. */
void ring_address_table_watch(const ring_address_table *address_table, ring_poll_set *poll_set);
ring_status ring_address_table_serve(ring_address_table *address_table,
                                     const ring_poll_set *poll_set, ring_error *error);

#endif
