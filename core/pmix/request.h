/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests of programs that the lead has not answered yet.
 */
#ifndef RING_PMIX_REQUEST_H
#define RING_PMIX_REQUEST_H

#include <pmix.h>
#include <pmix_server.h>

#include "pmi/pmix_message.h"

typedef struct ring_pmix_request {
  struct ring_pmix_request *next;
  uint64_t ticket;
  /* Gives the answer to PMIx, in the thread that receives messages. The request is freed after that. */
  void (*finish)(const struct ring_pmix_request *request, const ring_pmix_message *answer);
  void *call; /* of `finish` */
  void *arg;  /* of the callback, and the callback itself: */
  union {
    pmix_op_cbfunc_t done;
    pmix_modex_cbfunc_t modex;
  } back;
} ring_pmix_request;

/* Keeps a copy of the request under a new ticket, which the message gets, and sends the message. Returns PMIX_SUCCESS,
 * which promises a callback. The process exits without memory, and the lead reports that. */
pmix_status_t ring_pmix_request_send(const ring_pmix_request *given, char kind,
                                     ring_pmix_message *message);

/* Finishes the request with the answer's ticket. */
void ring_pmix_request_answer(const ring_pmix_message *answer);

#endif
