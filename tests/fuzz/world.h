/* SPDX-License-Identifier: Apache-2.0
 *
 * The world around a target: connections that hold bytes of the input and then end, and no other;
 * and a clock that only goes on while somebody waits, so that deadlines take no time. No target
 * opens a port, looks up a name or sleeps. The functions that it replaces are listed in
 * CMakeLists.txt, with --wrap.
 */
#ifndef FUZZ_WORLD_H
#define FUZZ_WORLD_H

#include "auth/handshake.h"
#include "input.h"

/* A connection whose peer has sent `first`, sends `later` when everybody waits, and then no
 * more. A descriptor, which the target owns; its other end takes what it is sent, until
 * world_end. */
int world_connection(input first, input later);

/* Connections that will be accepted, and be made by dialing, in the order in which they are given.
 * Their handshakes have gone well: those that are accepted claim `claim`. */
void world_accepts(int connection, ring_claim claim);
void world_dials(int connection);

/* Whether handshakes are the real ones. */
void world_shakes_hands(bool really);

/* Until world_end, a peer that has sent everything is silent and does not end its connection. */
void world_stays(void);

/* Closes the other ends, forgets connections that were never taken. */
void world_end(void);

#endif
