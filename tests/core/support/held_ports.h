/* SPDX-License-Identifier: Apache-2.0
 *
 * Ports of this machine that another process holds.
 */
#ifndef RING_HELD_PORTS_H
#define RING_HELD_PORTS_H

#include <stdint.h>

/* Ports in a row of 127.0.0.1 that were all free; those of `listeners` are held now. */
typedef struct held_ports {
  uint16_t first, last;
  int listeners[8];
  int held;
} held_ports;

/* `count` ports in a row, all but the last two of them held by listeners that accept nobody. */
held_ports hold_ports(int count);
void free_ports(held_ports *ports);

#endif
