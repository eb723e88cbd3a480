/* SPDX-License-Identifier: Apache-2.0 */
#include "bindings/agree.h"
#include "api/comm_lifecycle.h"

#include <stdio.h>
#include <stdlib.h>

#define AGREE_TEXT_MOST ((size_t)1 << 20) /* bytes that are kept of a text */

/* The first rank with a text, and the text, which is the only one of its rank. */
static const ring_string *agree_first(const ring_strings *texts, int size, int *rank) {
  for (*rank = 0; *rank < size; ++*rank)
    if (texts->counts[*rank] > 0) return texts->strings;
  return NULL;
}

static ring_status agree_describe(ring_comm *comm, const ring_strings *texts,
                                  ring_agreement *agreement) {
  const ring_string *text = agree_first(texts, ring_comm_size(comm), &agreement->rank);
  if (text == NULL) {
    agreement->rank = -1;
    return RING_OK;
  }
  static const char form[] = "rank %d (%s) failed: %.*s";
  const char *host = ring_comm_name(comm, agreement->rank);
  int rank = agreement->rank;
  int length = (int)(text->length < AGREE_TEXT_MOST ? text->length : AGREE_TEXT_MOST);
  int written = snprintf(NULL, 0, form, rank, host, length, text->bytes);
  agreement->text = malloc((size_t)written + 1);
  if (agreement->text == NULL) return RING_NO_MEMORY;
  snprintf(agreement->text, (size_t)written + 1, form, rank, host, length, text->bytes);
  return RING_OK;
}

ring_status ring_agree_on_failure(ring_comm *comm, const ring_string *failure,
                                  ring_agreement *agreement) {
  *agreement = (ring_agreement){.rank = -1};
  ring_strings texts;
  ring_status status = ring_strings_allgather(comm, failure, failure != NULL, &texts);
  if (status == RING_OK) status = agree_describe(comm, &texts, agreement);
  ring_strings_free(&texts);
  return status;
}

ring_status ring_agree(ring_comm *comm, const ring_string *failure, ring_agreement *agreement) {
  *agreement = (ring_agreement){.rank = -1};
  double failed = failure != NULL;
  ring_status status = ring_allreduce(comm, &failed, &failed, 1, RING_FLOAT64, RING_SUM);
  if (status != RING_OK || failed == 0) return status;
  return ring_agree_on_failure(comm, failure, agreement);
}

void ring_agreement_free(ring_agreement *agreement) {
  free(agreement->text);
  agreement->text = NULL;
}
