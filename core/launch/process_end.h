/* SPDX-License-Identifier: Apache-2.0
 *
 * How a process has ended, by its wait status.
 */
#ifndef RING_LAUNCH_PROCESS_END_H
#define RING_LAUNCH_PROCESS_END_H

#include <stddef.h>

/* The exit code, as shells have it: 128 + number for a signal. */
int ring_process_end_code(int status);

/* Describes into `text` how a process has failed. Returns `text`. */
const char *ring_process_end_describe(int status, char *text, size_t capacity);

#endif
