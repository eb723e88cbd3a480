/* SPDX-License-Identifier: Apache-2.0
 *
 * Seeds of record batches of Arrow, as Spark writes them.
 */
#include <string.h>

#include "seeds.h"

enum { VALIDITY = 1, OFFSETS = 16 }; /* bytes of a buffer that is one */

/* A record batch of three rows, of which the second is null in every column, as Spark writes it.
 * `asked` are the kinds of the columns, as the target reads them. A list column has two nodes. */
static void save_batch(const char *name, const char *asked, int nodes, const uint8_t *sizes,
                       int buffers) {
  static const uint8_t head[] = {16, 0, 12, 20, 18, 16, 4,  8,  12, 0,  32, 0, 0, 0, 0, 0,  3,
                                 4,  0, 0,  10, 20, 4,  12, 16, 0,  12, 0,  3, 0, 0, 0, 12, 0};
  seed made = {.length = 0};
  int end = 0;
  seed_add(&made, asked, strlen(asked));
  seed_add_number(&made, 0xff00, 2); /* from the first row to the last */
  seed_add_number(&made, UINT32_MAX, 4);
  seed_add_number(&made, 88 + 16 * (uint64_t)(nodes + buffers), 4);
  for (size_t i = 0; i < sizeof head; i++) seed_add_number(&made, head[i], 2);
  seed_add_number(&made, 16 + 16 * (uint64_t)nodes, 8); /* where the buffers are */
  seed_add_number(&made, (uint64_t)nodes, 4);
  for (int i = 0; i < nodes; i++) {
    seed_add_number(&made, 3, 8);
    seed_add_number(&made, 1, 8);
  }
  seed_add_number(&made, 0, 4);
  seed_add_number(&made, (uint64_t)buffers, 4);
  for (int i = 0; i < buffers; end += (sizes[i++] + 7) / 8 * 8) {
    seed_add_number(&made, (uint64_t)end, 8);
    seed_add_number(&made, sizes[i], 8);
  }
  for (int i = 0; i < buffers; i++) {
    seed buffer = {.length = 0};
    if (sizes[i] == VALIDITY) seed_add_byte(&buffer, 5);
    if (sizes[i] == OFFSETS) seed_add(&buffer, "\0\0\0\0\1\0\0\0\1\0\0\0\3", 13);
    seed_add(&made, buffer.bytes, (size_t)(sizes[i] + 7) / 8 * 8);
  }
  seed_save("fuzz_record_batch", name, made.bytes, made.length);
}

static void save_batches(void) {
  static const uint8_t fixed[] = {VALIDITY, 24, VALIDITY, 12, VALIDITY, 2, VALIDITY, 24};
  static const uint8_t variable[] = {VALIDITY, OFFSETS,  3,       VALIDITY, OFFSETS,
                                     3,        VALIDITY, OFFSETS, VALIDITY, 24};
  static const uint8_t strings[] = {VALIDITY, OFFSETS, VALIDITY, OFFSETS, 3};
  save_batch("fixed", "\3\16\1\2\5", 4, fixed, 8);     /* d i l t */
  save_batch("variable", "\2\3\6\7", 4, variable, 10); /* c r [d */
  save_batch("strings", "\4\x0b", 2, strings, 5);      /* [c */
}

void seeds_batches(void) {
  save_batches();
}
