/* SPDX-License-Identifier: Apache-2.0
 *
 * Address tables as they arrive from the network: valid ones, and all kinds of malformed ones.
 */
#include "base/address.h"
#include "base/bytes.h"
#include "check.h"
#include "rendezvous/address_table.h"
#include "wire.h"

/* Reads from memory that ends with the table, so that a sanitizer sees a byte too many. Whatever is
 * accepted has a place for every rank. */
static ring_status read_table(int size, const uint8_t *bytes, size_t length) {
  ring_peers peers;
  uint8_t *exact = malloc(length + 1);
  CHECK_INT(ring_peers_init(&peers, size - 1, size), RING_OK);
  memcpy(exact + 1, bytes, length);
  ring_status status = ring_address_table_unpack(&peers, exact + 1, length);
  for (int rank = 0; status == RING_OK && rank < size; rank++) {
    CHECK(peers.peer[rank].host >= 0 && peers.peer[rank].host < peers.host_count);
    CHECK(peers.peer[rank].port > 0 && strlen(ring_peers_host(&peers, rank)) > 0);
  }
  CHECK(status == RING_OK || status == RING_PEER_LOST);
  ring_peers_fini(&peers);
  free(exact);
  return status;
}

static void refuse_changed(const table *good, size_t at, uint64_t value, int width) {
  table bad = *good;
  bytes_put(bad.bytes + at, value, width);
  CHECK_INT(read_table(5, bad.bytes, bad.length), RING_PEER_LOST);
}

static void test_tables(void) {
  const int sizes[] = {5, 5, 600}, hosts[] = {1, 3, 300}, widths[] = {0, 1, 2};
  for (int i = 0; i < 3; i++) {
    table good = make_table(sizes[i], hosts[i], widths[i]);
    CHECK_INT(read_table(sizes[i], good.bytes, good.length), RING_OK);
  }
  table good = make_table(5, 3, 1);
  size_t places = good.length - 5 * 3;
  refuse_changed(&good, 0, 0, 4);
  refuse_changed(&good, 0, 6, 4);
  refuse_changed(&good, 0, UINT32_MAX, 4);
  refuse_changed(&good, 4, 255, 1);             /* a host longer than any may be */
  refuse_changed(&good, 4, 100, 1);             /* and one longer than the table */
  refuse_changed(&good, 5, ' ', 1);             /* no host */
  refuse_changed(&good, 4 + 2 * 7 - 1, '0', 1); /* the same host twice */
  refuse_changed(&good, places, 3, 1);          /* a host that is not listed */
  refuse_changed(&good, places + 1, 0, 2);      /* no port */
}

static void test_tables_cut_and_changed(void) {
  table good = make_table(5, 3, 1);
  for (size_t length = 0; length < good.length; length++)
    CHECK_INT(read_table(5, good.bytes, length), RING_PEER_LOST);
  CHECK_INT(read_table(5, good.bytes, good.length + 1), RING_PEER_LOST);
  for (size_t at = 0; at < good.length; at++) {
    for (int value = 0; value < 256; value++) {
      table changed = good;
      changed.bytes[at] = (uint8_t)value;
      read_table(5, changed.bytes, changed.length);
    }
  }
}

int main(void) {
  RUN(test_tables);
  RUN(test_tables_cut_and_changed);
  return 0;
}
