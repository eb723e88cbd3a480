/* SPDX-License-Identifier: Apache-2.0 */
#include "pmi/pmix_hub.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "pmi/name_service.h"
#include "pmi/pmi_failure.h"

#define PMIX_HUB_KEPT (2 * (size_t)RING_PMIX_MOST) /* bytes that the fences of a host take */

bool ring_pmix_hub_begin(ring_pmix_hub *hub, const int *nodes, int size) {
  size_t count = (size_t)size;
  *hub = (ring_pmix_hub){.size = size};
  hub->nodes = malloc(count * sizeof *hub->nodes);
  hub->leads = malloc(count * sizeof *hub->leads);
  hub->active = calloc(count, sizeof *hub->active);
  hub->kept = calloc(count, sizeof *hub->kept);
  if (hub->nodes == NULL || hub->leads == NULL || hub->active == NULL || hub->kept == NULL)
    return false;
  memcpy(hub->nodes, nodes, count * sizeof *nodes);
  for (int rank = 0; rank < size; rank++)
    if (nodes[rank] == hub->hosts) hub->leads[hub->hosts++] = rank;
  return true;
}

/* ---- Fences ------------------------------------------------------------------------------- */

static void pmix_fence_free(ring_pmix_fence *fence, int hosts) {
  for (int host = 0; fence->parts != NULL && host < hosts; host++)
    if (fence->parts[host].data != NULL) ring_hub_payload_drop(fence->parts[host].data);
  free(fence->head);
  free(fence->takes_part);
  free(fence->parts);
  free(fence);
}

void ring_pmix_hub_end(ring_pmix_hub *hub) {
  while (hub->fences != NULL) {
    ring_pmix_fence *fence = hub->fences;
    hub->fences = fence->next;
    pmix_fence_free(fence, hub->hosts);
  }
  free(hub->nodes);
  free(hub->leads);
  free(hub->active);
  free(hub->kept);
  *hub = (ring_pmix_hub){0};
}

/* Bytes of a fence without the hosts' data. */
static size_t pmix_fence_bytes(const ring_pmix_hub *hub, size_t head) {
  return head + sizeof(ring_pmix_fence) + (size_t)hub->hosts * (sizeof(ring_pmix_part) + 1);
}

/* A fence of the ranks and the name of a message; NULL without memory. */
static ring_pmix_fence *pmix_fence_make(const ring_pmix_hub *hub,
                                        const ring_pmix_message *message) {
  size_t hosts = (size_t)hub->hosts;
  ring_pmix_fence *fence = calloc(1, sizeof *fence);
  if (fence == NULL) return NULL;
  fence->count = message->value;
  fence->head_length = ring_pmix_message_fence_head(message);
  fence->head = malloc(fence->head_length);
  fence->takes_part = calloc(hosts, sizeof *fence->takes_part);
  fence->parts = calloc(hosts, sizeof *fence->parts);
  if (fence->head == NULL || fence->takes_part == NULL || fence->parts == NULL) {
    pmix_fence_free(fence, hub->hosts);
    return NULL;
  }
  memcpy(fence->head, message->bytes, fence->head_length);
  for (int host = 0; host < hub->hosts; host++) fence->takes_part[host] = fence->count == 0;
  for (int place = 0; place < fence->count; place++)
    fence->takes_part[hub->nodes[ring_pmix_message_rank(fence->head, place)]] = true;
  for (int host = 0; host < hub->hosts; host++) fence->missing += fence->takes_part[host];
  return fence;
}

/* The fence of these ranks and that name that the host has not come to yet, or a new one; NULL without memory. */
static ring_pmix_fence *pmix_hub_fence(ring_pmix_hub *hub, const ring_pmix_message *message,
                                       int host) {
  size_t head = ring_pmix_message_fence_head(message);
  ring_pmix_fence **at = &hub->fences;
  for (; *at != NULL; at = &(*at)->next)
    if ((*at)->count == message->value && (*at)->parts[host].data == NULL &&
        (*at)->head_length == head && memcmp((*at)->head, message->bytes, head) == 0)
      return *at;
  *at = pmix_fence_make(hub, message);
  if (*at == NULL) return NULL;
  (*at)->beginner = host;
  hub->kept[host] += pmix_fence_bytes(hub, head);
  return *at;
}

/* Sends the tickets and the data of all hosts to each, as one payload. */
static ring_status pmix_fence_complete(const ring_pmix_hub *hub, ring_hub *control,
                                       const ring_pmix_fence *fence, ring_error *error) {
  char *room;
  ring_status status = RING_OK;
  ring_pmix_message message = {
      .rank = (int32_t)hub->completed, .value = hub->hosts, .length = 8 * (size_t)hub->hosts};
  for (int host = 0; host < hub->hosts; host++)
    if (fence->parts[host].data != NULL) message.length += fence->parts[host].data->length - 1;
  ring_hub_payload *all = ring_pmix_control_make(RING_PMIX_FENCE, &message, &room);
  if (all == NULL) return ring_pmi_failure_no_memory(error, control->messages);
  uint8_t *to = (uint8_t *)room;
  for (int host = 0; host < hub->hosts; host++) to = bytes_put(to, fence->parts[host].ticket, 8);
  for (int host = 0; host < hub->hosts; host++) {
    const ring_hub_payload *part = fence->parts[host].data;
    if (part == NULL) continue;
    memcpy(to, part->bytes + 1, part->length - 1);
    to += part->length - 1;
  }
  for (int host = 0; host < hub->hosts && status == RING_OK; host++)
    if (fence->takes_part[host])
      status = ring_hub_share(control, all, hub->leads[host], RING_PMI_FROM_HUB, error);
  ring_hub_payload_drop(all);
  return status;
}

static void pmix_hub_remove(ring_pmix_hub *hub, ring_pmix_fence *fence) {
  ring_pmix_fence **at = &hub->fences;
  hub->kept[fence->beginner] -= pmix_fence_bytes(hub, fence->head_length);
  for (int host = 0; host < hub->hosts; host++)
    if (fence->parts[host].data != NULL) hub->kept[host] -= fence->parts[host].data->length;
  while (*at != fence) at = &(*at)->next;
  *at = fence->next;
  pmix_fence_free(fence, hub->hosts);
}

static ring_status pmix_hub_take_fence(ring_pmix_hub *hub, ring_hub *control, int host,
                                       const ring_pmix_message *message, ring_error *error) {
  ring_pmix_fence *fence = pmix_hub_fence(hub, message, host);
  size_t head = ring_pmix_message_fence_head(message), length = message->length - head;
  if (fence != NULL && (!fence->takes_part[host] || hub->kept[host] + length > PMIX_HUB_KEPT))
    return ring_pmi_failure_invalid_message(error, control->messages, hub->leads[host]);
  ring_hub_payload *data = ring_pmi_control_make(RING_PMI_CONTROL_FENCE, length);
  if (fence == NULL || data == NULL) {
    if (data != NULL) ring_hub_payload_drop(data);
    return ring_pmi_failure_no_memory(error, control->messages);
  }
  if (length > 0) memcpy(data->bytes + 1, message->bytes + head, length);
  hub->kept[host] += data->length;
  fence->parts[host] = (ring_pmix_part){message->ticket, data};
  if (--fence->missing > 0) return RING_OK;
  ring_status status = pmix_fence_complete(hub, control, fence, error);
  hub->completed++;
  pmix_hub_remove(hub, fence);
  return status;
}

/* ---- Data and names ----------------------------------------------------------------------- */

/* Passes a request for data to the lead of the target's host. */
static ring_status pmix_hub_pass_modex(const ring_pmix_hub *hub, ring_hub *control, int rank,
                                       const ring_pmix_message *message, ring_error *error) {
  const ring_pmix_message passed = {
      .ticket = message->ticket, .rank = message->rank, .value = rank};
  return ring_pmix_control_send(control, RING_PMIX_MODEX, &passed,
                                hub->leads[hub->nodes[message->rank]], RING_PMI_FROM_HUB, error);
}

/* Passes data to the lead that has asked for it. */
static ring_status pmix_hub_pass_data(ring_hub *control, const ring_pmix_message *message,
                                      ring_error *error) {
  return ring_pmix_control_send(control, RING_PMIX_FETCHED, message, message->rank,
                                RING_PMI_FROM_HUB, error);
}

/* Whether key and value are within the limits. */
static bool pmix_hub_has_room(const char *key, bool publishes) {
  size_t length = strlen(key);
  return length <= RING_PMI_KEY_MOST &&
         (!publishes || strlen(key + length + 1) <= RING_PMI_VALUE_MOST);
}

/* Publishes, looks up or removes a name, and fills the answer. Names that are too long are refused. */
static ring_hub_payload *pmix_hub_answer_name(ring_key_values *names,
                                              const ring_pmix_message *message) {
  ring_pmix_message answer = {.ticket = message->ticket};
  const char *key = message->bytes, *found = NULL;
  bool publishes = message->value == RING_PMIX_PUBLISH;
  bool good = pmix_hub_has_room(key, publishes);
  if (good) found = ring_key_values_get(names, key);
  if (good && publishes)
    good = found == NULL && ring_key_values_count(names) < RING_PMI_NAMES_MOST &&
           ring_key_values_put(names, key, key + strlen(key) + 1);
  else
    good = found != NULL;
  answer.value = good;
  if (good && message->value == RING_PMIX_LOOKUP) {
    answer.bytes = found;
    answer.length = strlen(found);
  }
  ring_hub_payload *payload = ring_pmix_control_make(RING_PMIX_NAME, &answer, NULL);
  if (good && message->value == RING_PMIX_UNPUBLISH) ring_key_values_remove(names, key);
  return payload;
}

/* ---- Control messages --------------------------------------------------------------------- */

bool ring_pmix_hub_takes(char kind) {
  return kind == RING_PMIX_ACTIVE || kind == RING_PMIX_FENCE || kind == RING_PMIX_MODEX ||
         kind == RING_PMIX_FETCHED || kind == RING_PMIX_NAME;
}

ring_status ring_pmix_hub_take(ring_pmix_hub *hub, ring_hub *control, ring_key_values *names,
                               int rank, char kind, const char *bytes, size_t length,
                               ring_error *error) {
  ring_pmix_message message;
  int host = hub->nodes[rank];
  bool good = ring_pmix_message_read(bytes, length, &message);
  if (good && kind != RING_PMIX_ACTIVE)
    good = hub->leads[host] == rank && ring_pmix_message_is_good(kind, &message, hub->size);
  if (!good) return ring_pmi_failure_invalid_message(error, control->messages, rank);
  if (kind == RING_PMIX_FENCE) return pmix_hub_take_fence(hub, control, host, &message, error);
  if (kind == RING_PMIX_MODEX) return pmix_hub_pass_modex(hub, control, rank, &message, error);
  if (kind == RING_PMIX_FETCHED) return pmix_hub_pass_data(control, &message, error);
  if (kind == RING_PMIX_NAME)
    return ring_hub_send(control, pmix_hub_answer_name(names, &message), rank, RING_PMI_FROM_HUB,
                         error);
  hub->active[rank] = true;
  return RING_OK;
}

/* ---- Ends --------------------------------------------------------------------------------- */

static bool pmix_fence_has(const ring_pmix_fence *fence, int rank) {
  if (fence->count == 0) return true;
  for (int place = 0; place < fence->count; place++)
    if (ring_pmix_message_rank(fence->head, place) == rank) return true;
  return false;
}

/* The least rank that waits in a fence for a host that has not come; -1: there is none. */
static int pmix_fence_waiting(const ring_pmix_hub *hub, const ring_pmix_fence *fence) {
  for (int rank = 0; rank < hub->size; rank++)
    if (pmix_fence_has(fence, rank) && fence->parts[hub->nodes[rank]].data != NULL) return rank;
  return -1;
}

int ring_pmix_hub_waiting(const ring_pmix_hub *hub, int ended, bool silent) {
  for (int rank = 0; silent && rank < hub->size; rank++)
    if (hub->active[rank]) return rank;
  for (const ring_pmix_fence *fence = hub->fences; fence != NULL; fence = fence->next)
    if (pmix_fence_has(fence, ended) && fence->parts[hub->nodes[ended]].data == NULL)
      return pmix_fence_waiting(hub, fence);
  return -1;
}
