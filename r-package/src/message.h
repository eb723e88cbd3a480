/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages from one rank to another, with the same steps as the collectives (collective.h). They always
 * block: messages.h starts sends and receives.
 */
#ifndef SPARKRING_MESSAGE_H
#define SPARKRING_MESSAGE_H

#include <Rinternals.h>

SEXP message_send(SEXP comm, SEXP x, SEXP peer);
SEXP message_recv(SEXP comm, SEXP x, SEXP peer);

#endif
