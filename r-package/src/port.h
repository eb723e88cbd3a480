/* SPDX-License-Identifier: Apache-2.0
 *
 * Ports that are reserved for servers of frameworks. R/comm-port.R documents the entry points.
 */
#ifndef SPARKRING_PORT_H
#define SPARKRING_PORT_H

#include <Rinternals.h>

SEXP port_reserve(SEXP comm);
SEXP port_release(SEXP comm, SEXP port);

#endif
