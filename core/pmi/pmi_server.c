/* SPDX-License-Identifier: Apache-2.0 */
#include "pmi/pmi_server.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/fd_registry.h"
#include "base/platform.h"
#include "messages/message_driver.h"

#define PMI_SERVER_GRACE_NS UINT64_C(250000000) /* for a better reason than the server has */
#define PMI_SERVER_PAUSE_MS 20                  /* the longest between two turns */

void ring_pmi_server_break(ring_pmi *pmi, const ring_error *error) {
  messages_lock(pmi->messages);
  ring_message_driver_fail(pmi->messages, error);
  messages_unlock(pmi->messages);
}

void ring_pmi_server_fail(ring_pmi *pmi, ring_status status, int fault, const char *text) {
  ring_error error;
  ring_error_set(&error, status, fault, 0, "rank %d (%s): %s", fault,
                 ring_comm_host(pmi->messages->comm, fault), text);
  ring_pmi_server_break(pmi, &error);
}

static void pmi_server_no_memory(ring_pmi *pmi) {
  ring_pmi_server_fail(pmi, RING_NO_MEMORY, pmi->rank, "the PMI server is out of memory");
}

/* ---- The program -------------------------------------------------------------------------- */

static void pmi_server_disconnect(ring_pmi *pmi) {
  if (pmi->fd >= 0) ring_fd_close(pmi->fd);
  pmi->fd = -1;
}

/* The program has gone on, or ended: shows how far it is. */
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

static void pmi_server_begin_fence(ring_pmi *pmi) {
  const ring_key_values *values = &pmi->protocol.values;
  size_t length = values->length - values->fenced;
  pmi->awaiting = true;
  if (!ring_pmi_outbox_post(&pmi->outbox, RING_PMI_MAIL_FENCE,
                            length > 0 ? values->pairs + values->fenced : NULL, length, 0,
                            RING_PMI_TO_HUB))
    pmi_server_no_memory(pmi);
}

static void pmi_server_ask_name(ring_pmi *pmi, const char *text, size_t length) {
  pmi->awaiting = true;
  if (!ring_pmi_outbox_post(&pmi->outbox, RING_PMI_MAIL_NAME, text, length, 0, RING_PMI_TO_HUB))
    pmi_server_no_memory(pmi);
}

static void pmi_server_refuse(ring_pmi *pmi, const char *problem) {
  char text[sizeof pmi->failure.message];
  snprintf(text, sizeof text,
           "the program sent what is no PMI-1: %.700s; programs of MPICH and of the MPI 5 ABI over "
           "MPICH speak it",
           problem);
  pmi_server_disconnect(pmi);
  ring_pmi_server_fail(pmi, RING_INVALID, pmi->rank, text);
}

static void pmi_server_take_line(ring_pmi *pmi, const char *text, size_t length) {
  ring_pmi_protocol *protocol = &pmi->protocol;
  ring_pmi_state before = protocol->state;
  ring_pmi_action action = ring_pmi_protocol_take(protocol, text, length);
  if (protocol->state != before) pmi_server_show(pmi); /* before the program knows */
  if (action == RING_PMI_FENCE)
    pmi_server_begin_fence(pmi);
  else if (action == RING_PMI_NAME)
    pmi_server_ask_name(pmi, text, length);
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
  while (!pmi->awaiting && pmi->protocol.state <= RING_PMI_FINALIZED && at < pmi->length) {
    const char *end = memchr(pmi->input + at, '\n', pmi->length - at);
    if (end == NULL) break;
    size_t length = (size_t)(end - pmi->input) - at;
    pmi_server_take_line(pmi, pmi->input + at, length);
    at += length + 1;
  }
  pmi->length -= at;
  memmove(pmi->input, pmi->input + at, pmi->length);
  if (pmi->awaiting || pmi->length < sizeof pmi->input) return;
  if (memchr(pmi->input, '\n', pmi->length) != NULL) return;
  char text[64];
  snprintf(text, sizeof text, "a line is longer than %d bytes", RING_PMI_LINE_MOST);
  pmi->length = 0;
  pmi_server_refuse(pmi, text);
}

/* Reads what has come, and handles it. Returns whether something had come. */
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

static bool pmi_server_post_receive(ring_pmi *pmi) {
  return ring_messages_take_start(pmi->messages, 0, RING_PMI_FROM_HUB, &pmi->receive) == RING_OK;
}

static void pmi_server_end_fence(ring_pmi *pmi, const char *pairs, size_t length) {
  pmi->awaiting = false;
  if (!ring_key_values_are_pairs(pairs, length)) {
    ring_pmi_server_fail(pmi, RING_SYSTEM, 0,
                         "the PMI server sent nonsense: all ranks need the same sparkring");
    return;
  }
  if (!ring_key_values_fence(&pmi->protocol.values, pairs, length)) pmi_server_no_memory(pmi);
  pmi_server_answer(pmi, pmi->protocol.answer, strlen(pmi->protocol.answer));
}

static void pmi_server_finish(ring_pmi *pmi, const ring_error *failure) {
  pthread_mutex_lock(&pmi->mutex);
  if (failure != NULL) pmi->failure = *failure;
  pmi->over = true;
  pthread_cond_broadcast(&pmi->changed);
  pthread_mutex_unlock(&pmi->mutex);
}

/* Handles what the hub has sent. Returns whether something had come. */
static bool pmi_server_hear(ring_pmi *pmi) {
  int done = 0;
  ring_status status = ring_transfer_test(pmi->receive, &done);
  if (!done) return false;
  if (status != RING_OK) {
    pmi_server_finish(pmi, ring_transfer_error(pmi->receive));
    return true;
  }
  size_t length = ring_transfer_info(pmi->receive).count;
  char *bytes = ring_transfer_take_output(pmi->receive);
  ring_transfer_free(pmi->receive);
  pmi->receive = NULL;
  if (length > 0 && bytes[0] == RING_PMI_MAIL_END) {
    pmi_server_finish(pmi, NULL);
  } else if (!pmi_server_post_receive(pmi)) {
    pmi_server_no_memory(pmi);
    pmi_server_finish(pmi, ring_messages_error(pmi->messages));
  } else if (length > 0 && bytes[0] == RING_PMI_MAIL_FENCE) {
    pmi_server_end_fence(pmi, bytes + 1, length - 1);
  } else if (length > 0) {
    pmi->awaiting = false;
    pmi_server_answer(pmi, bytes + 1, length - 1);
  }
  ring_free(bytes);
  return true;
}

static bool pmi_server_serve_hub(ring_pmi *pmi) {
  bool moved = false;
  ring_error error;
  if (pmi->rank != 0 || ring_hub_turn(&pmi->hub, &moved, &error) == RING_OK) return moved;
  if (error.status != RING_OK)
    ring_pmi_server_fail(pmi, error.status, error.rank >= 0 ? error.rank : 0, error.message);
  return true;
}

/* ---- The end ------------------------------------------------------------------------------ */

/* A program that was lost, or has aborted, fails when its time is over; one that is left while it uses MPI
 * fails at once. */
static void pmi_server_check_program(ring_pmi *pmi, bool closing) {
  char text[96];
  const char *why = "the program closed its connection of PMI before it called MPI_Finalize";
  if (pmi->grace == 0 && !(closing && pmi->protocol.state == RING_PMI_ACTIVE)) return;
  if (pmi->grace != 0 && !closing && ring_platform_now() < pmi->grace) return;
  snprintf(text, sizeof text, "the program called MPI_Abort with exit code %d",
           pmi->protocol.exit_code);
  ring_pmi_server_fail(pmi, RING_ABORTED, pmi->rank,
                       pmi->protocol.state == RING_PMI_ABORTED ? text : why);
}

/* Tells the hub, once, that the program has ended. */
static void pmi_server_tell_end(ring_pmi *pmi) {
  pmi->ended = true;
  pmi_server_disconnect(pmi);
  if (!ring_pmi_outbox_post(&pmi->outbox, RING_PMI_MAIL_END, NULL, 0, 0, RING_PMI_TO_HUB))
    pmi_server_no_memory(pmi);
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
  moved = pmi_server_serve_hub(pmi) || moved;
  ring_pmi_outbox_sweep(&pmi->outbox);
  moved = pmi_server_hear(pmi) || moved;
  if (moved || pmi->ended) return moved;
  pmi_server_check_program(pmi, closing);
  bool idle = pmi->protocol.state == RING_PMI_SILENT || pmi->protocol.state == RING_PMI_FINALIZED;
  if (closing && idle) pmi_server_tell_end(pmi);
  return closing && idle;
}

static void pmi_server_sleep(const ring_pmi *pmi, int milliseconds) {
  bool reads = pmi->fd >= 0 && pmi->length < sizeof pmi->input;
  struct pollfd entry = {.fd = reads ? pmi->fd : -1, .events = POLLIN};
  poll(&entry, 1, milliseconds);
}

/* `over` is written by this thread alone. */
static void *pmi_server_main(void *arg) {
  ring_pmi *pmi = arg;
  int pause = 1;
  while (!pmi->over) {
    bool moved = pmi_server_turn(pmi);
    pause = moved ? 1 : 2 * pause < PMI_SERVER_PAUSE_MS ? 2 * pause : PMI_SERVER_PAUSE_MS;
    if (!moved) pmi_server_sleep(pmi, pause / 2);
  }
  pmi_server_disconnect(pmi);
  return NULL;
}

int ring_pmi_server_begin(ring_pmi *pmi) {
  pmi->outbox.messages = pmi->messages;
  if (!pmi_server_post_receive(pmi)) return ENOMEM;
  if (pmi->rank == 0 &&
      !ring_hub_begin(&pmi->hub, pmi->messages, ring_comm_size(pmi->messages->comm)))
    return ENOMEM;
  int code = ring_platform_thread(&pmi->thread, pmi_server_main, pmi);
  pmi->threaded = code == 0;
  return code;
}

void ring_pmi_server_end(ring_pmi *pmi) {
  ring_pmi_outbox_finish(&pmi->outbox);
  ring_hub_end(&pmi->hub);
  if (pmi->receive != NULL) ring_transfer_free(pmi->receive);
  pmi->receive = NULL;
  pmi_server_disconnect(pmi);
  ring_key_values_free(&pmi->protocol.values);
}
