/* SPDX-License-Identifier: Apache-2.0
 *
 * The core's names say what DLPack says by a code: a name is a kind of number and its bits.
 */
#include "dlpack_dtype.h"

#include <stdio.h>
#include <string.h>

static const struct {
  const char *name;
  uint8_t code;
} kinds[] = {
    {"int", DLPACK_INT},       {"uint", DLPACK_UINT},       {"float", DLPACK_FLOAT},
    {"bfloat", DLPACK_BFLOAT}, {"complex", DLPACK_COMPLEX}, {"bool", DLPACK_BOOL},
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static uint8_t code_of(ring_dtype dtype) {
  const char *name = ring_dtype_name(dtype);
  size_t letters = strcspn(name, "0123456789");
  for (size_t i = 0; i < KINDS; i++)
    if (strlen(kinds[i].name) == letters && memcmp(name, kinds[i].name, letters) == 0)
      return kinds[i].code;
  return UINT8_MAX;
}

dlpack_dtype dlpack_dtype_of(ring_dtype dtype) {
  return (dlpack_dtype){code_of(dtype), (uint8_t)(8 * ring_dtype_size(dtype)), 1};
}

static bool is_same(dlpack_dtype dtype, ring_dtype candidate) {
  return dtype.bits == 8 * ring_dtype_size(candidate) && dtype.code == code_of(candidate);
}

bool dlpack_dtype_read(dlpack_dtype dtype, ring_dtype *found) {
  if (dtype.lanes != 1) return false;
#define DLPACK_DTYPE_READ(name, text, bytes)                                                       \
  if (is_same(dtype, RING_##name)) {                                                               \
    *found = RING_##name;                                                                          \
    return true;                                                                                   \
  }
  RING_DTYPE_MAP(DLPACK_DTYPE_READ)
#undef DLPACK_DTYPE_READ
  return false;
}

void dlpack_dtype_print(dlpack_dtype dtype, char *text, size_t size) {
  const char *name = NULL;
  for (size_t i = 0; i < KINDS; i++)
    if (kinds[i].code == dtype.code) name = kinds[i].name;
  if (name == NULL)
    snprintf(text, size, "DLPack's code %u of %u bits", dtype.code, dtype.bits);
  else if (dtype.lanes != 1)
    snprintf(text, size, "%s%u of %u lanes", name, dtype.bits, dtype.lanes);
  else
    snprintf(text, size, "%s%u", name, dtype.bits);
}
