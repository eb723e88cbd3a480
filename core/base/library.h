/* SPDX-License-Identifier: Apache-2.0
 *
 * Libraries that are loaded at run time, because few hosts have them. A loaded library stays: threads of it
 * may run.
 */
#ifndef RING_BASE_LIBRARY_H
#define RING_BASE_LIBRARY_H

#include <stddef.h>

/* Loads the first library of a list of names with colons between them. Else returns NULL, and `problem` has the
 * reason for each name. */
void *ring_library_load(const char *names, char *problem, size_t size);

/* Stores the address of a function at `function`, which points to a pointer to a function; NULL where the
 * library has none of that name. */
void ring_library_find(void *library, const char *name, void *function);

/* Loads a library from the folder of the library that has this function (a pointer to a function is at `function`), for
 * which the loader does not look there. Whether it is there is found later. */
void ring_library_load_beside(const void *function, const char *name);

#endif
