/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of states. A directory has the last states, one a file, with a rising number in its name. A file is
 * a state, as bytes of pickle or serialize(), and a trailer: the SHA-256 of these bytes, and magic. So a file
 * that was not written to its end, on a file system that cannot rename, is detected, and the state before it
 * counts. The trailer is at the end because neither pickle nor readRDS() reads there.
 */
#ifndef RING_BINDINGS_CHECKPOINT_H
#define RING_BINDINGS_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RING_CHECKPOINT_NAME_BYTES = 32, RING_CHECKPOINT_TRAILER_BYTES = 48 };

/* Writes the name of the file of a state, "state-000000000007". The name has 12 digits. */
void ring_checkpoint_name(int64_t number, char *name);

/* The number of the state in the file of this name; -1 when it is no such file. */
int64_t ring_checkpoint_number(const char *name);

/* Whether a state is older than the two that are kept. */
bool ring_checkpoint_is_old(int64_t number, int64_t newest);

/* Writes the trailer of a state. False when OpenSSL has failed. */
bool ring_checkpoint_seal(const void *state, size_t length, uint8_t *trailer);

/* Whether the file is whole; *state is then the length of the state at its beginning. */
bool ring_checkpoint_check(const void *file, size_t length, size_t *state);

#endif
