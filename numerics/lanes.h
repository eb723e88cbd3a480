/* SPDX-License-Identifier: Apache-2.0
 *
 * Four doubles at once, by the vectors of GCC and Clang. A function with LANES_CLONES has a second version for
 * processors with AVX2, which the loader chooses. Neither fuses operations, so both have the same results. Functions
 * that it calls are inlined, by LANES_INLINE, so that they are in both versions.
 */
#ifndef SPARKRING_LANES_H
#define SPARKRING_LANES_H

#include <limits.h> /* defines __GLIBC__ */

enum { LANES = 4 };

typedef double lanes __attribute__((vector_size(LANES * sizeof(double)), aligned(8), may_alias));

#if defined __x86_64__ && defined __GLIBC__ && defined __GNUC__ && !defined __clang__
#define LANES_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define LANES_CLONES
#endif
#define LANES_INLINE static inline __attribute__((always_inline))

/* Macros, because without AVX a function that returned `lanes` would be called in another way. */
#define LANES_AT(from) (*(const lanes *)(from))
#define LANES_PUT(to, x) (*(lanes *)(to) = (x))

#endif
