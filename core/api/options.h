/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of a communicator, from the caller and the environment: complete and checked, or
 * refused with what to change.
 */
#ifndef RING_API_OPTIONS_H
#define RING_API_OPTIONS_H

#include "api/environment.h"

/* Reads what was given, NULL for nothing. Every choice is RING_ON or RING_OFF afterwards. Strings from
 * the environment stay in *environment, which is zeroed before and freed by the caller, also after a
 * failure. */
ring_status ring_options_read(const ring_options *given, ring_options *options,
                              ring_environment *environment, ring_error *error);

#endif
