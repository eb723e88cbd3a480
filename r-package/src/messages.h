/* SPDX-License-Identifier: Apache-2.0
 *
 * The R objects of messages and of their transfers: external pointers of the classes "ring_messages" and
 * "ring_transfer". A transfer protects its messages and what it sends.
 */
#ifndef SPARKRING_R_MESSAGES_H
#define SPARKRING_R_MESSAGES_H

#include <Rinternals.h>

/* The entry points. R/messages.R documents them, and checks their arguments. */
SEXP messages_open(SEXP comm);
SEXP messages_send(SEXP messages, SEXP given, SEXP peer, SEXP tag, SEXP start);
SEXP messages_recv(SEXP messages, SEXP source, SEXP tag);
SEXP messages_probe(SEXP messages, SEXP source, SEXP tag, SEXP wait);
SEXP messages_close(SEXP messages);
SEXP transfer_wait(SEXP transfer);
SEXP transfer_test(SEXP transfer);
SEXP transfer_info(SEXP transfer);

#endif
