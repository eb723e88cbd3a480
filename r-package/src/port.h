/* SPDX-License-Identifier: Apache-2.0
 *
 * Ports that servers of others are to have. R/comm-port.R says what the entry points mean.
 */
#ifndef SPARKRING_PORT_H
#define SPARKRING_PORT_H

#include <Rinternals.h>

SEXP port_reserve(SEXP comm);
SEXP port_release(SEXP comm, SEXP port);

#endif
