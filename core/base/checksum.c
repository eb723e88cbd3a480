/* SPDX-License-Identifier: Apache-2.0 */
#include "base/checksum.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

#define CHECKSUM_POLYNOMIAL UINT32_C(0x82f63b78) /* bits in reverse, as everything here */
#define CHECKSUM_TABLES 8

static pthread_once_t checksum_once = PTHREAD_ONCE_INIT;
static uint32_t checksum_tables[CHECKSUM_TABLES][256];
static ring_checksum_way checksum_ways[RING_CHECKSUM_WAYS]; /* the fastest first */

/* ---- Anywhere ----------------------------------------------------------------------------- */

static inline uint64_t checksum_load(const uint8_t *bytes) {
  uint64_t word;
  memcpy(&word, bytes, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  word = __builtin_bswap64(word);
#endif
  return word;
}

/* crc times x. */
static uint32_t checksum_shift(uint32_t crc) {
  return crc >> 1 ^ (crc & 1 ? CHECKSUM_POLYNOMIAL : 0);
}

/* Table k advances a byte by k bytes more (Kounavis and Berry, 2005). */
static void checksum_fill_tables(void) {
  for (uint32_t byte = 0; byte < 256; byte++) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; bit++) crc = checksum_shift(crc);
    checksum_tables[0][byte] = crc;
  }
  for (int k = 1; k < CHECKSUM_TABLES; k++)
    for (uint32_t byte = 0; byte < 256; byte++) {
      uint32_t before = checksum_tables[k - 1][byte];
      checksum_tables[k][byte] = before >> 8 ^ checksum_tables[0][before & 0xff];
    }
}

static uint32_t checksum_by_tables(const void *bytes, size_t length) {
  const uint8_t *at = bytes;
  uint32_t crc = UINT32_MAX;
  for (; length >= 8; at += 8, length -= 8) {
    uint64_t word = checksum_load(at) ^ crc;
    crc = 0;
    for (int k = 0; k < CHECKSUM_TABLES; k++)
      crc ^= checksum_tables[CHECKSUM_TABLES - 1 - k][word >> (8 * k) & 0xff];
  }
  for (; length > 0; at++, length--) crc = crc >> 8 ^ checksum_tables[0][(crc ^ *at) & 0xff];
  return ~crc;
}

/* ---- By the processor's instruction ------------------------------------------------------- */

#if defined(__x86_64__)

/* To recent versions of clang the instruction is no part of SSE 4.2; old ones of gcc lack the name. */
#if defined(__clang__) && __clang_major__ >= 14
#define CHECKSUM_SSE "sse4.2,crc32"
#else
#define CHECKSUM_SSE "sse4.2"
#endif
#define CHECKSUM_CRC __attribute__((target(CHECKSUM_SSE)))
#define CHECKSUM_FOLD __attribute__((target(CHECKSUM_SSE ",pclmul")))
#define CHECKSUM_WIDE __attribute__((target(CHECKSUM_SSE ",pclmul,avx512f,avx512vl,vpclmulqdq")))

CHECKSUM_CRC static inline uint32_t checksum_word(uint32_t crc, uint64_t word) {
  return (uint32_t)_mm_crc32_u64(crc, word);
}

CHECKSUM_CRC static inline uint32_t checksum_byte(uint32_t crc, uint8_t byte) {
  return _mm_crc32_u8(crc, byte);
}

#elif defined(__ARM_FEATURE_CRC32)

#define CHECKSUM_CRC

static inline uint32_t checksum_word(uint32_t crc, uint64_t word) {
  return __crc32cd(crc, word);
}

static inline uint32_t checksum_byte(uint32_t crc, uint8_t byte) {
  return __crc32cb(crc, byte);
}

#endif

#ifdef CHECKSUM_CRC

CHECKSUM_CRC static uint32_t checksum_go_on(uint32_t crc, const uint8_t *at, size_t length) {
  for (; length >= 8; at += 8, length -= 8) crc = checksum_word(crc, checksum_load(at));
  for (; length > 0; at++, length--) crc = checksum_byte(crc, *at);
  return crc;
}

CHECKSUM_CRC static uint32_t checksum_by_instruction(const void *bytes, size_t length) {
  return ~checksum_go_on(UINT32_MAX, bytes, length);
}

#endif

/* ---- By several at once ------------------------------------------------------------------- */

#ifdef CHECKSUM_FOLD

/* Of loops over registers, without which they would be memory. */
#define CHECKSUM_UNROLLED _Pragma("GCC unroll 4")

static uint32_t checksum_power(unsigned power) {
  uint32_t crc = UINT32_C(1) << 31;
  for (unsigned i = 0; i < power; i++) crc = checksum_shift(crc);
  return crc;
}

/* Three stripes side by side, since the instruction takes a word a cycle. The product of two CRCs as a
 * word stands for itself times x, and taking a word in multiplies by x^32: so x^(n-33) moves by n
 * bits. */
#define CHECKSUM_STRIPE 512          /* bytes */
static uint32_t checksum_stripes[2]; /* move by two of them, and by one */

CHECKSUM_FOLD static inline __m128i checksum_product(uint32_t crc, uint32_t move) {
  return _mm_clmulepi64_si128(_mm_cvtsi32_si128((int)crc), _mm_cvtsi32_si128((int)move), 0);
}

CHECKSUM_FOLD static uint32_t checksum_by_stripes(const void *bytes, size_t length) {
  const uint8_t *at = bytes;
  uint32_t crc = UINT32_MAX;
  for (; length >= 3 * CHECKSUM_STRIPE; length -= 3 * CHECKSUM_STRIPE) {
    uint32_t two = 0, three = 0;
    for (const uint8_t *end = at + CHECKSUM_STRIPE; at < end; at += 8) {
      crc = checksum_word(crc, checksum_load(at));
      two = checksum_word(two, checksum_load(at + CHECKSUM_STRIPE));
      three = checksum_word(three, checksum_load(at + 2 * CHECKSUM_STRIPE));
    }
    __m128i sum = _mm_xor_si128(checksum_product(crc, checksum_stripes[0]),
                                checksum_product(two, checksum_stripes[1]));
    crc = checksum_word(0, (uint64_t)_mm_cvtsi128_si64(sum)) ^ three;
    at += 2 * CHECKSUM_STRIPE;
  }
  return ~checksum_go_on(crc, at, length);
}

/* Folding in four registers of four blocks. Bit m of a word stands for x^(63-m), and the product of two
 * words comes out divided by x: to move a block by n bits, its first word, which is higher by x^64, is
 * multiplied by x^(n+63), and its second one by x^(n-1). */
#define CHECKSUM_REGISTER 64 /* bytes */
#define CHECKSUM_BLOCK 16
static uint64_t checksum_moves[3][2]; /* by four registers, by one, by a block */

CHECKSUM_WIDE static inline __m512i checksum_folded(__m512i blocks, __m512i move, __m512i next) {
  /* 0x96: the exclusive or of three */
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(blocks, move, 0x00),
                                   _mm512_clmulepi64_epi128(blocks, move, 0x11), next, 0x96);
}

CHECKSUM_WIDE static inline __m512i checksum_move(int which) {
  return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)checksum_moves[which]));
}

/* The CRC of four blocks. */
CHECKSUM_WIDE static inline uint32_t checksum_of(__m512i blocks) {
  alignas(CHECKSUM_REGISTER) uint64_t words[CHECKSUM_REGISTER / 8];
  __m128i move = _mm512_castsi512_si128(checksum_move(2));
  _mm512_store_si512(words, blocks);
  __m128i sum = _mm_load_si128((const __m128i *)words);
  CHECKSUM_UNROLLED for (int i = 1; i < 4; i++) {
    __m128i next = _mm_load_si128((const __m128i *)words + i);
    sum = _mm_xor_si128(
        _mm_xor_si128(_mm_clmulepi64_si128(sum, move, 0x00), _mm_clmulepi64_si128(sum, move, 0x11)),
        next);
  }
  uint32_t crc = checksum_word(0, (uint64_t)_mm_cvtsi128_si64(sum));
  return checksum_word(crc, (uint64_t)_mm_extract_epi64(sum, 1));
}

CHECKSUM_WIDE static uint32_t checksum_by_folding(const void *bytes, size_t length) {
  const uint8_t *at = bytes;
  __m512i lanes[4], move = checksum_move(0);
  if (length < sizeof lanes) return checksum_by_instruction(bytes, length);
  CHECKSUM_UNROLLED for (int i = 0; i < 4; i++) lanes[i] =
      _mm512_loadu_si512(at + CHECKSUM_REGISTER * i);
  lanes[0] = _mm512_xor_si512(lanes[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(-1)));
  for (at += sizeof lanes, length -= sizeof lanes; length >= sizeof lanes;
       at += sizeof lanes, length -= sizeof lanes)
    CHECKSUM_UNROLLED for (int i = 0; i < 4; i++) lanes[i] =
        checksum_folded(lanes[i], move, _mm512_loadu_si512(at + CHECKSUM_REGISTER * i));
  move = checksum_move(1);
  CHECKSUM_UNROLLED for (int i = 1; i < 4; i++) lanes[0] =
      checksum_folded(lanes[0], move, lanes[i]);
  for (; length >= CHECKSUM_REGISTER; at += CHECKSUM_REGISTER, length -= CHECKSUM_REGISTER)
    lanes[0] = checksum_folded(lanes[0], move, _mm512_loadu_si512(at));
  return ~checksum_go_on(checksum_of(lanes[0]), at, length);
}

static void checksum_fill_moves(void) {
  static const unsigned bytes[] = {4 * CHECKSUM_REGISTER, CHECKSUM_REGISTER, CHECKSUM_BLOCK};
  for (int k = 0; k < 3; k++) {
    checksum_moves[k][0] = (uint64_t)checksum_power(8 * bytes[k] + 63) << 32;
    checksum_moves[k][1] = (uint64_t)checksum_power(8 * bytes[k] - 1) << 32;
  }
  checksum_stripes[0] = checksum_power(8 * 2 * CHECKSUM_STRIPE - 33);
  checksum_stripes[1] = checksum_power(8 * CHECKSUM_STRIPE - 33);
}

#endif

/* ---- The fastest -------------------------------------------------------------------------- */

static void checksum_prepare(void) {
  int ways = 0;
  checksum_fill_tables();
#ifdef CHECKSUM_FOLD
  checksum_fill_moves();
  bool crc = __builtin_cpu_supports("sse4.2"), products = crc && __builtin_cpu_supports("pclmul");
  bool wide = products && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
              __builtin_cpu_supports("vpclmulqdq");
  if (wide) checksum_ways[ways++] = checksum_by_folding;
  if (products) checksum_ways[ways++] = checksum_by_stripes;
  if (crc) checksum_ways[ways++] = checksum_by_instruction;
#elif defined(CHECKSUM_CRC)
  checksum_ways[ways++] = checksum_by_instruction;
#endif
  checksum_ways[ways] = checksum_by_tables;
}

ring_checksum_way ring_checksum_way_of(int way) {
  pthread_once(&checksum_once, checksum_prepare);
  return way < RING_CHECKSUM_WAYS ? checksum_ways[way] : NULL;
}

uint32_t ring_checksum(const void *bytes, size_t length) {
  return ring_checksum_way_of(0)(bytes, length);
}
