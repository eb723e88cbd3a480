/* SPDX-License-Identifier: Apache-2.0
 *
 * The seed corpus: for every target some inputs that are right, from which the fuzzer finds its way to
 * those that are almost right. They are made with the core's own packers, so they stay right when a
 * format changes.
 */
#ifndef FUZZ_SEEDS_H
#define FUZZ_SEEDS_H

#include <stddef.h>
#include <stdint.h>

enum { SEED_ROOM = 4096 };

typedef struct seed {
  uint8_t bytes[SEED_ROOM];
  size_t length;
} seed;

void seed_add(seed *to, const void *bytes, size_t length);
void seed_add_byte(seed *to, unsigned byte);
void seed_add_number(seed *to, uint64_t number, int width);

/* With its length before it, as input_piece reads it. */
void seed_add_piece(seed *to, const seed *piece);

/* Writes FOLDER/<target>/<name>. */
void seed_save(const char *target, const char *name, const void *bytes, size_t length);

/* Ends the process with the error of the system. */
void seed_fail(const char *what);

void seeds_links(void);
void seeds_pmi(void);
void seeds_rendezvous(void);
void seeds_values(void);
void seeds_batches(void);

#endif
