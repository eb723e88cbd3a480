/* SPDX-License-Identifier: Apache-2.0
 *
 * Seeds of values that ranks gather: strings, tensors of a reducer, envelopes of objects.
 */
#include "bindings/envelope.h"
#include "reducer/announcement.h"
#include "seeds.h"

/* The number of each of the two other ranks, before and after that of this rank, which is rank 1. */
static void add_numbers(seed *to, int64_t one, int64_t other, int count) {
  for (int i = 0; i < count; i++) seed_add_number(to, (uint64_t)one, 8);
  seed_add_byte(to, 0); /* this rank's own as they are */
  for (int i = 0; i < count; i++) seed_add_number(to, (uint64_t)other, 8);
}

static void save_gathered(void) {
  static const char *const names[] = {"strings", "agreement", "rows", "clock"};
  for (unsigned which = 0; which < 4; which++) {
    seed made = {.length = 0};
    seed_add_byte(&made, which + 4); /* rank 1 */
    seed_add_byte(&made, which < 2 ? 1 : 8);
    if (which == 1) { /* the sum of failures is as it comes: 1 */
      seed_add_byte(&made, 2);
      seed_add_number(&made, 0x3ff0000000000000, 8);
    }
    if (which < 2) {
      add_numbers(&made, 1, 1, 2); /* one string of one byte */
      add_numbers(&made, 1, 1, 1); /* lengths */
      seed_add(&made, "a\0b", 3);
    } else if (which == 2) {
      add_numbers(&made, 5, 2, 1);
    } else {
      for (int i = 0; i < 32; i++) seed_add_number(&made, 2000000000, 8);
      add_numbers(&made, 3, 4, 3);
    }
    seed_save("fuzz_gathered", names[which], made.bytes, made.length);
  }
}

/* One cycle: this rank submits, the others announce the same, and in the next cycle all offer. */
static void save_reducer(void) {
  static const char *const names[] = {"allreduce", "group",    "reduce_scatter", "broadcast",
                                      "allgather", "alltoall", "barrier"};
  for (unsigned kind = 0; kind < 7; kind++) {
    const int64_t shape[2] = {3, 2};
    const ring_buffer buffers[2] = {{NULL, NULL, 2}, {NULL, NULL, 4}};
    ring_operation operation = RING_OPERATION_INIT;
    seed made = {.length = 0}, announced = {.length = 0};
    operation.kind = (ring_operation_kind)kind;
    operation.dtype = RING_INT64;
    operation.shape = shape;
    operation.dimensions = 2;
    operation.buffers = buffers;
    operation.buffer_count = 2;
    uint8_t description[128];
    ring_tensor_encode(&operation, description);
    const ring_announcement announcement = {"a", 1, description, ring_tensor_length(&operation)};
    announced.length = announcement_bytes(&announcement);
    ring_announcement_encode(&announcement, announced.bytes);
    seed_add_byte(&made, 1);        /* rank 1 */
    seed_add_byte(&made, 1);        /* submits one */
    seed_add_byte(&made, 4 * kind); /* of this kind as "a" */
    seed_add_byte(&made, 0);
    seed_add_byte(&made, 0); /* the AND as it is: NEW */
    add_numbers(&made, (int64_t)announced.length, (int64_t)announced.length, 1);
    seed_add(&made, announced.bytes, announced.length);
    seed_add_byte(&made, 0);
    seed_add(&made, announced.bytes, announced.length);
    seed_add_number(&made, 0, 3); /* submits nothing, and the AND as it is: ready */
    add_numbers(&made, 2, 3, 1);
    seed_save("fuzz_reducer", names[kind], made.bytes, made.length);
  }
}

static void save_envelopes(void) {
  static const char *const names[] = {"pickle", "r", "failure"};
  for (unsigned which = 0; which < 3; which++) {
    seed made = {.length = 0};
    seed_add_byte(&made, 1); /* two envelopes */
    seed_add_byte(&made, which);
    for (int i = 0; i < 2; i++) {
      seed_add(&made, "an object", 9);
      ring_envelope_seal(made.bytes + made.length,
                         which == 0   ? RING_ENVELOPE_PICKLE
                         : which == 1 ? ring_envelope_kind_of_r()
                                      : RING_ENVELOPE_FAILURE,
                         9);
      made.length += RING_ENVELOPE_TRAILER_BYTES;
    }
    seed_save("fuzz_envelope", names[which], made.bytes, made.length);
  }
}

void seeds_values(void) {
  save_gathered();
  save_reducer();
  save_envelopes();
}
