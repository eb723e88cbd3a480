/* SPDX-License-Identifier: Apache-2.0
 *
 * Background work of a library that moves data only while it is called, as MPI does. A rank that waits for another
 * rank in any other way calls the library meanwhile: the other rank may wait for that data.
 */
#ifndef RING_BASE_BACKGROUND_H
#define RING_BASE_BACKGROUND_H

/* Sets the function that sleeps call, from any thread; NULL: none. The function must not block. */
void ring_background_set(void (*work)(void));

/* Calls the function. Returns how many milliseconds the caller may sleep before it calls again: `milliseconds`
 * (negative: no end) without a function. */
int ring_background_work(int milliseconds);

#endif
