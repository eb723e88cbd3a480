/* SPDX-License-Identifier: Apache-2.0 */
#include "pmi/pmi_server.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd_registry.h"
#include "base/platform.h"
#include "messages/message_progress.h"
#include "pmi/name_service.h"
#include "pmi/pmi_failure.h"
#include "pmi/pmix_start.h"

#define PMI_SERVER_GRACE_NS UINT64_C(700000000) /* for a better reason than the server has */
#define PMI_SERVER_SLICE_MS 100                 /* between two checks of the parent */

void ring_pmi_server_keep(ring_pmi *pmi, const ring_error *error) {
  if (pmi->failure.status == RING_OK) pmi->failure = *error;
}

/* Ends the servers of all ranks, with the fault of this rank. */
static void pmi_server_fail(ring_pmi *pmi, ring_status status, const char *text) {
  ring_error error;
  ring_pmi_failure_set(&error, pmi->messages, status, pmi->rank, "%s", text);
  ring_messages_fail(pmi->messages, &error);
}

/* ---- The program -------------------------------------------------------------------------- */

static void pmi_server_disconnect(ring_pmi *pmi) {
  if (pmi->fd >= 0) ring_fd_close(pmi->fd);
  pmi->fd = -1;
}

/* Publishes the state of the program. */
static void pmi_server_show(ring_pmi *pmi) {
  pthread_mutex_lock(&pmi->mutex);
  pmi->state = pmi->protocol.state;
  pmi->exit_code = pmi->protocol.exit_code;
  pthread_mutex_unlock(&pmi->mutex);
}

/* The connection has ended. */
static void pmi_server_lose(ring_pmi *pmi) {
  pmi_server_disconnect(pmi);
  if (pmi->protocol.state != RING_PMI_ACTIVE) return;
  pmi->protocol.state = RING_PMI_LOST;
  pmi->grace = ring_platform_now() + PMI_SERVER_GRACE_NS;
  pmi_server_show(pmi);
}

/* A program that does not read its answers is as good as lost: it has one request at a time. */
static void pmi_server_answer(ring_pmi *pmi, const char *answer, size_t length) {
  if (pmi->fd < 0) return;
  if (send(pmi->fd, answer, length, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)length)
    pmi_server_lose(pmi);
}

/* Sends a control message to the hub. */
static void pmi_server_send(ring_pmi *pmi, ring_pmi_kind kind, const void *bytes, size_t length) {
  ring_error error;
  if (ring_pmi_control_send(&pmi->control, kind, bytes, length, 0, RING_PMI_TO_HUB, &error) !=
      RING_OK)
    ring_messages_fail(pmi->messages, &error);
}

/* Sends a request to the hub, whose answer comes before the next line. */
static void pmi_server_request(ring_pmi *pmi, ring_pmi_kind kind, const void *bytes,
                               size_t length) {
  pmi->awaiting = kind;
  pmi_server_send(pmi, kind, bytes, length);
}

static void pmi_server_begin_fence(ring_pmi *pmi) {
  const ring_key_values *values = &pmi->protocol.values;
  size_t length = values->length - values->fenced;
  pmi_server_request(pmi, RING_PMI_CONTROL_FENCE,
                     length > 0 ? values->pairs + values->fenced : NULL, length);
}

static void pmi_server_refuse(ring_pmi *pmi, const char *problem) {
  char text[sizeof pmi->failure.message];
  snprintf(text, sizeof text,
           "the program sent an invalid PMI-1 request: %.700s; programs of MPICH and of the MPI 5 "
           "ABI over MPICH send valid ones",
           problem);
  pmi_server_disconnect(pmi);
  pmi_server_fail(pmi, RING_INVALID, text);
}

static void pmi_server_take_line(ring_pmi *pmi, const char *text, size_t length) {
  ring_pmi_protocol *protocol = &pmi->protocol;
  ring_pmi_state before = protocol->state;
  ring_pmi_action action = ring_pmi_protocol_take(protocol, text, length);
  if (protocol->state != before) pmi_server_show(pmi); /* before the program knows */
  if (action == RING_PMI_FENCE)
    pmi_server_begin_fence(pmi);
  else if (action == RING_PMI_NAME)
    pmi_server_request(pmi, RING_PMI_CONTROL_NAME, text, length);
  else if (action == RING_PMI_ABORT)
    pmi->grace = ring_platform_now() + PMI_SERVER_GRACE_NS;
  else if (action == RING_PMI_FAIL)
    pmi_server_refuse(pmi, protocol->error.message);
  else if (action != RING_PMI_CONTINUE)
    pmi_server_answer(pmi, protocol->answer, strlen(protocol->answer));
}

/* Takes the whole lines of what was read. */
static void pmi_server_take_lines(ring_pmi *pmi) {
  size_t at = 0;
  while (pmi->awaiting == RING_PMI_CONTROL_NONE && pmi->protocol.state <= RING_PMI_FINALIZED &&
         at < pmi->length) {
    const char *end = memchr(pmi->input + at, '\n', pmi->length - at);
    if (end == NULL) break;
    size_t length = (size_t)(end - pmi->input) - at;
    pmi_server_take_line(pmi, pmi->input + at, length);
    at += length + 1;
  }
  pmi->length -= at;
  memmove(pmi->input, pmi->input + at, pmi->length);
  if (pmi->awaiting != RING_PMI_CONTROL_NONE || pmi->length < sizeof pmi->input) return;
  if (memchr(pmi->input, '\n', pmi->length) != NULL) return;
  char text[64];
  snprintf(text, sizeof text, "a line is longer than %d bytes", RING_PMI_LINE_MOST);
  pmi->length = 0;
  pmi_server_refuse(pmi, text);
}

/* Reads bytes of the program, and handles them. Returns whether there were bytes, or the end. */
static bool pmi_server_read(ring_pmi *pmi) {
  ssize_t got = -1;
  errno = EAGAIN;
  if (pmi->fd >= 0 && pmi->length < sizeof pmi->input)
    got = recv(pmi->fd, pmi->input + pmi->length, sizeof pmi->input - pmi->length, MSG_DONTWAIT);
  bool lost = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
  if (got > 0) pmi->length += (size_t)got;
  pmi_server_take_lines(pmi);
  if (lost) pmi_server_lose(pmi);
  return got > 0 || lost;
}

/* ---- The hub ------------------------------------------------------------------------------ */

static void pmi_server_refuse_hub(ring_pmi *pmi) {
  ring_error error;
  ring_pmi_failure_invalid_message(&error, pmi->messages, 0);
  ring_messages_fail(pmi->messages, &error);
}

static void pmi_server_end_fence(ring_pmi *pmi, const char *pairs, size_t length) {
  ring_error error;
  if (!ring_key_values_are_pairs(pairs, length)) {
    pmi_server_refuse_hub(pmi);
  } else if (!ring_key_values_fence(&pmi->protocol.values, pairs, length)) {
    ring_pmi_failure_no_memory(&error, pmi->messages);
    ring_messages_fail(pmi->messages, &error);
  } else {
    pmi_server_answer(pmi, pmi->protocol.answer, strlen(pmi->protocol.answer));
  }
}

static void pmi_server_finish(ring_pmi *pmi, const ring_error *failure) {
  pthread_mutex_lock(&pmi->mutex);
  if (failure != NULL) ring_pmi_server_keep(pmi, failure);
  pmi->over = true;
  pthread_cond_broadcast(&pmi->changed);
  pthread_mutex_unlock(&pmi->mutex);
}

/* Ends the servers of all ranks, and this one: nothing can be received any more. */
static void pmi_server_give_in(ring_pmi *pmi, const ring_error *error) {
  ring_messages_fail(pmi->messages, error);
  pmi_server_finish(pmi, error);
}

/* Handles one control message of the hub. */
static void pmi_server_take(ring_pmi *pmi, const char *bytes, size_t length) {
  bool awaited =
      pmi->awaiting != RING_PMI_CONTROL_NONE && length > 0 && bytes[0] == (char)pmi->awaiting;
  pmi->awaiting = RING_PMI_CONTROL_NONE;
  if (awaited && bytes[0] == RING_PMI_CONTROL_FENCE)
    pmi_server_end_fence(pmi, bytes + 1, length - 1);
  else if (awaited && ring_name_service_is_answer(bytes + 1, length - 1))
    pmi_server_answer(pmi, bytes + 1, length - 1);
  else
    pmi_server_refuse_hub(pmi);
}

static void pmi_server_take_pmix(ring_pmi *pmi, const char *bytes, size_t length) {
  ring_error error;
  if (ring_pmix_side_take(&pmi->pmix, bytes[0], bytes + 1, length - 1, &error) != RING_OK)
    ring_messages_fail(pmi->messages, &error);
}

/* Receives from the hub. Returns whether a control message, or a failure, had come. */
static bool pmi_server_receive(ring_pmi *pmi) {
  ring_error error;
  ring_hub_message message;
  ring_hub_arrival arrival = ring_hub_receive(&pmi->control, &message, &error);
  if (arrival == RING_HUB_NOTHING) return false;
  if (arrival == RING_HUB_FAILURE) {
    pmi_server_give_in(pmi, &error);
    return true;
  }
  const char *bytes = message.bytes;
  if (pmi->ended && message.length > 0 && bytes[0] == RING_PMI_CONTROL_END)
    pmi_server_finish(pmi, NULL);
  else if (ring_hub_post(&pmi->control, &error) != RING_OK)
    pmi_server_give_in(pmi, &error);
  else if (message.length > 0 && ring_pmix_side_takes(bytes[0]))
    pmi_server_take_pmix(pmi, bytes, message.length);
  else
    pmi_server_take(pmi, bytes, message.length);
  ring_free(message.bytes);
  return true;
}

static bool pmi_server_serve_hub(ring_pmi *pmi) {
  bool moved = false;
  ring_error error;
  if (pmi->rank == 0 && ring_pmi_hub_turn(&pmi->hub, &moved, &error) != RING_OK)
    ring_messages_fail(pmi->messages, &error); /* no effect on messages that have failed */
  return moved;
}

/* ---- PMIx --------------------------------------------------------------------------------- */

/* Publishes a new state of the program before the program knows. */
static void pmi_server_take_news(ring_pmi *pmi, const ring_pmix_news *news) {
  if (pmi->ended) return;
  pmi->protocol.state = news->state;
  pmi->protocol.exit_code = news->exit_code;
  if (news->state == RING_PMI_ABORTED) pmi->grace = ring_platform_now() + PMI_SERVER_GRACE_NS;
  pmi_server_show(pmi);
}

/* Returns whether something moved. */
static bool pmi_server_serve_pmix(ring_pmi *pmi) {
  bool moved = false;
  ring_error error;
  ring_status status = ring_pmix_side_turn(&pmi->pmix, &moved, &error);
  if (status == RING_OK && pmi->pmix.news.has) {
    pmi_server_take_news(pmi, &pmi->pmix.news);
    status = ring_pmix_side_known(&pmi->pmix, &error);
  }
  if (status != RING_OK) ring_messages_fail(pmi->messages, &error);
  return moved;
}

/* ---- The end ------------------------------------------------------------------------------ */

/* A program that was lost, or has aborted, fails when its grace is over. A program that the owner has closed while
 * it uses MPI fails at once. */
static void pmi_server_check_program(ring_pmi *pmi, bool closing) {
  char text[96];
  if (pmi->grace == 0 && !(closing && pmi->protocol.state == RING_PMI_ACTIVE)) return;
  if (pmi->grace != 0 && !closing && ring_platform_now() < pmi->grace) return;
  snprintf(text, sizeof text, "the program called MPI_Abort with exit code %d",
           pmi->protocol.exit_code);
  pmi_server_fail(pmi, RING_ABORTED,
                  pmi->protocol.state == RING_PMI_ABORTED ? text : RING_PMI_FAILURE_LEFT);
}

/* While the program runs, this rank may be in no wait that watches its parent. */
static void pmi_server_check_parent(ring_pmi *pmi) {
  ring_wait wait;
  ring_error error;
  long parent;
  comm_prepare_wait(pmi->messages->comm, 0, &wait);
  if (!wait.watch_parent || !ring_platform_orphaned(&parent)) return;
  ring_wait_aborted(&wait, pmi->rank, "an MPI program", &error);
  ring_messages_fail(pmi->messages, &error);
}

/* Reports the end of the program to the hub, once. */
static void pmi_server_report_end(ring_pmi *pmi) {
  size_t silent = pmi->protocol.state == RING_PMI_SILENT ? 1 : 0; /* a byte for that state */
  pmi->ended = true;
  pmi_server_disconnect(pmi);
  pmi_server_send(pmi, RING_PMI_CONTROL_END, "s", silent);
}

/* ---- The thread --------------------------------------------------------------------------- */

static bool pmi_server_is_closing(ring_pmi *pmi) {
  pthread_mutex_lock(&pmi->mutex);
  bool closing = pmi->closing;
  pthread_mutex_unlock(&pmi->mutex);
  return closing;
}

/* Returns whether something moved. */
static bool pmi_server_turn(ring_pmi *pmi) {
  bool closing = pmi_server_is_closing(pmi); /* before the last bytes are read */
  bool moved = pmi_server_read(pmi);
  moved = pmi_server_serve_pmix(pmi) || moved;
  moved = pmi_server_serve_hub(pmi) || moved;
  moved = pmi_server_receive(pmi) || moved;
  if (moved || pmi->ended) return moved;
  pmi_server_check_program(pmi, closing);
  pmi_server_check_parent(pmi);
  bool idle = pmi->protocol.state == RING_PMI_SILENT || pmi->protocol.state == RING_PMI_FINALIZED;
  if (closing && idle) pmi_server_report_end(pmi);
  return closing && idle;
}

/* Milliseconds to sleep at most. */
static int pmi_server_slice(const ring_pmi *pmi) {
  uint64_t now = ring_platform_now();
  if (pmi->grace == 0 || pmi->ended) return PMI_SERVER_SLICE_MS;
  uint64_t left = pmi->grace > now ? (pmi->grace - now) / 1000000 + 1 : 0;
  return left < PMI_SERVER_SLICE_MS ? (int)left : PMI_SERVER_SLICE_MS;
}

/* Sleeps until the program or the PMIx server sends, a transfer completes, or the owner wakes the thread. */
static void pmi_server_sleep(const ring_pmi *pmi) {
  char bytes[64];
  bool reads = pmi->fd >= 0 && pmi->length < sizeof pmi->input;
  const ring_pmix_process *pmix = &pmi->pmix.process;
  struct pollfd entries[3] = {{.fd = reads ? pmi->fd : -1, .events = POLLIN},
                              {.fd = pmi->wakeup[0], .events = POLLIN},
                              {.fd = pmix->pid != 0 ? pmix->channel.fd : -1,
                               .events = ring_pmix_channel_events(&pmix->channel)}};
  if (poll(entries, 3, pmi_server_slice(pmi)) <= 0 || entries[1].revents == 0) return;
  while (read(pmi->wakeup[0], bytes, sizeof bytes) == (ssize_t)sizeof bytes) continue;
}

/* Waits until the links are open. False where serve has failed. */
static bool pmi_server_await_links(ring_pmi *pmi) {
  pthread_mutex_lock(&pmi->mutex);
  while (!pmi->begun && !pmi->over)
    ring_platform_condition_wait(&pmi->changed, &pmi->mutex, PMI_SERVER_SLICE_MS);
  bool begun = pmi->begun;
  pthread_mutex_unlock(&pmi->mutex);
  return begun;
}

/* From `begun` on, `over` is written by this thread alone. */
static void *pmi_server_main(void *arg) {
  ring_pmi *pmi = arg;
  if (!pmi_server_await_links(pmi)) return NULL;
  while (!pmi->over)
    if (!pmi_server_turn(pmi)) pmi_server_sleep(pmi);
  pmi_server_disconnect(pmi);
  return NULL;
}

/* ---- The life of the thread --------------------------------------------------------------- */

int ring_pmi_server_begin(ring_pmi *pmi) {
  ring_error error;
  ring_messages_announce_completions(pmi->messages, pmi->wakeup[1]);
  if (ring_hub_begin(&pmi->control, pmi->messages, 0, RING_PMI_FROM_HUB, &error) != RING_OK)
    return ENOMEM;
  const ring_comm *comm = pmi->messages->comm;
  if (pmi->rank == 0 && ring_pmi_hub_begin(&pmi->hub, pmi->messages, comm->topology.nodes,
                                           ring_comm_size(comm), &error) != RING_OK)
    return ENOMEM;
  int code = ring_platform_thread(&pmi->thread, pmi_server_main, pmi);
  pmi->threaded = code == 0;
  return code;
}

static void pmi_server_change(ring_pmi *pmi, bool *what) {
  pthread_mutex_lock(&pmi->mutex);
  *what = true;
  pthread_cond_broadcast(&pmi->changed);
  pthread_mutex_unlock(&pmi->mutex);
}

void ring_pmi_server_run(ring_pmi *pmi) {
  pmi_server_change(pmi, &pmi->begun);
}

void ring_pmi_server_cancel(ring_pmi *pmi) {
  pmi_server_change(pmi, &pmi->over);
}

void ring_pmi_server_wake(const ring_pmi *pmi) {
  while (write(pmi->wakeup[1], "", 1) < 0 && errno == EINTR) continue;
}

static void pmi_server_close_wakeup(ring_pmi *pmi) {
  ring_messages_announce_completions(pmi->messages, -1);
  for (int i = 0; i < 2; i++) {
    if (pmi->wakeup[i] >= 0) close(pmi->wakeup[i]);
    pmi->wakeup[i] = -1;
  }
}

void ring_pmi_server_end(ring_pmi *pmi) {
  if (pmi->threaded) pthread_join(pmi->thread, NULL);
  pmi->threaded = false;
  ring_hub_end(&pmi->control);
  ring_pmi_hub_end(&pmi->hub);
  ring_pmix_end(&pmi->pmix);
  pmi_server_close_wakeup(pmi);
  pmi_server_disconnect(pmi);
  ring_key_values_free(&pmi->protocol.values);
}
