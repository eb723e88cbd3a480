/* SPDX-License-Identifier: Apache-2.0
 *
 * The check of a frame: CRC32C (Castagnoli et al., 1993; the polynomial of iSCSI, RFC 3720). TCP's own
 * sum is 16 bits wide and made by network cards, so that what is damaged between memory and card, or
 * in a router, can pass for right. Every burst of up to 32 wrong bits is found, and of anything else
 * all but one in 4 billion.
 *
 * Processors have an instruction for CRC32C, which takes 8 bytes and has a latency of three cycles: three
 * stripes at once keep it busy. Where registers are wide, long inputs are folded instead (Gopal
 * et al., Intel, 2009): blocks times x^n, modulo the polynomial, are added to those n bits behind.
 */
#ifndef RING_BASE_CHECKSUM_H
#define RING_BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* The CRC32C of `length` bytes, by the fastest way that this processor has. */
uint32_t ring_checksum(const void *bytes, size_t length);

/* Each way, for tests. NULL behind the last way, and for a way that this processor lacks. */
typedef uint32_t (*ring_checksum_way)(const void *bytes, size_t length);
enum { RING_CHECKSUM_WAYS = 4 };
ring_checksum_way ring_checksum_way_of(int way);

#endif
