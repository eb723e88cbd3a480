/* SPDX-License-Identifier: Apache-2.0 */
#include "pmix/request.h"

#include <pthread.h>
#include <stdlib.h>

#include "pmix/connection.h"

static pthread_mutex_t request_mutex = PTHREAD_MUTEX_INITIALIZER;
static ring_pmix_request *request_first;
static uint64_t request_ticket;

pmix_status_t ring_pmix_request_send(const ring_pmix_request *given, char kind,
                                     ring_pmix_message *message) {
  ring_pmix_request *request = ring_pmix_connection_allocate(sizeof *request);
  *request = *given;
  pthread_mutex_lock(&request_mutex);
  request->ticket = message->ticket = ++request_ticket;
  request->next = request_first;
  request_first = request;
  pthread_mutex_unlock(&request_mutex);
  ring_pmix_connection_send(kind, message);
  return PMIX_SUCCESS;
}

/* Removes the request with that ticket from the list; NULL: there is none. */
static ring_pmix_request *request_take(uint64_t ticket) {
  pthread_mutex_lock(&request_mutex);
  ring_pmix_request **at = &request_first;
  while (*at != NULL && (*at)->ticket != ticket) at = &(*at)->next;
  ring_pmix_request *request = *at;
  if (request != NULL) *at = request->next;
  pthread_mutex_unlock(&request_mutex);
  return request;
}

void ring_pmix_request_answer(const ring_pmix_message *answer) {
  ring_pmix_request *request = request_take(answer->ticket);
  if (request == NULL) ring_pmix_connection_fail("the lead sent an answer to no request");
  request->finish(request, answer);
  free(request);
}
