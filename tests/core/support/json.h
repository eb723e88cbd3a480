/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a text is JSON.
 */
#ifndef RING_JSON_H
#define RING_JSON_H

#include <stdbool.h>

bool json_is_valid(const char *text);

#endif
