/* SPDX-License-Identifier: Apache-2.0
 *
 * The directory of a PMIx server, which PMIx and programs write into. The lead makes and removes it. The server removes
 * it where the lead has died.
 */
#ifndef RING_PMI_PMIX_DIRECTORY_H
#define RING_PMI_PMIX_DIRECTORY_H

#include <stdbool.h>
#include <stddef.h>

/* Makes a directory for this user alone, in TMPDIR. False: errno is the reason, and path[] the place. */
bool ring_pmix_directory_make(char *path, size_t capacity);

/* Removes it with all that it has, or what is left of it. */
void ring_pmix_directory_remove(const char *path);

#endif
