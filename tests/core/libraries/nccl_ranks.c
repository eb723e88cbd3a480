/* SPDX-License-Identifier: Apache-2.0
 *
 * Stands in for NCCL between ranks, where tests have none: communicators of sparkring on the stub of CUDA, whose
 * memory is the host's. Ranks find each other as with NCCL: the unique id has the address of rank 0 and a secret.
 * Work runs in the order of its stream, and ends when the communicator is aborted. As in NCCL from 2.23 on, a call of a
 * communicator that does not block is in progress until a thread has launched it, and another call meanwhile is
 * refused; with one rank a call is launched at once.
 *
 * nccl_calls.c has the functions that put work on streams.
 *
 * It differs from NCCL: reductions are those of sparkring, and nothing is known of speed or of graphs.
 *
 * NCCL_STUB_VERSION: its version. NCCL_STUB_FAILS makes a rank (-1: all) fail, "KIND:RANK" or "KIND:RANK:CALL" with
 * calls counted from 1:
 *   id       there is no unique id             init     init fails at once, without a communicator
 *   pending  init is in progress for ever      die      the process is killed in init
 *   hang     the work of that call never ends  async    the same, and the communicator reports an error
 *   refuse   that call returns an error        abort    the same, and ncclCommAbort never returns
 *   stuck    that call is in progress for ever  later    that call is in progress, then fails
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "cuda.h"
#include "nccl_ranks.h"

enum { LAUNCH_US = 200 };

ring_cuda_result cuCtxGetDevice(ring_cuda_gpu *gpu);
ring_cuda_result cuCtxGetCurrent(ring_cuda_context *context);
ring_cuda_result cuCtxPushCurrent_v2(ring_cuda_context context);

typedef struct id_text {
  unsigned char secret[32];
  char address[64], job[32];
} id_text;

struct ncclComm {
  ring_comm *ring;
  ring_messages *messages;
  id_text id;
  int rank, size, gpu, blocking;
  int state;       /* a ring_nccl_result */
  int launching;   /* a thread launches a call, or finalizes */
  int abort_hangs; /* ncclCommAbort never returns */
  int aborted;     /* no work begins any more */
  int running;     /* a piece of work does */
  int references;
  unsigned calls, turn; /* given out, and of the next work to run */
  pthread_t opener;
  int opening;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

/* Whether this is the rank, and the call, that fails in that way. */
static int fails(const char *kind, int rank, unsigned call) {
  char name[16];
  int at = 0;
  unsigned number = 0;
  const char *set = getenv("NCCL_STUB_FAILS");
  if (set == NULL || sscanf(set, "%15[a-z]:%d:%u", name, &at, &number) < 2) return 0;
  return strcmp(name, kind) == 0 && (at == rank || at < 0) && number == call;
}

static int get(const int *value) {
  return __atomic_load_n(value, __ATOMIC_SEQ_CST);
}

static void set_state(ring_nccl_comm comm, int state) {
  __atomic_store_n(&comm->state, state, __ATOMIC_SEQ_CST);
}

/* ---- Opening ------------------------------------------------------------------------------- */

ring_nccl_result ncclGetVersion(int *version) {
  const char *set = getenv("NCCL_STUB_VERSION");
  *version = set != NULL ? atoi(set) : 22803;
  return RING_NCCL_SUCCESS;
}

const char *ncclGetErrorString(ring_nccl_result result) {
  static const char *const texts[] = {"no error",
                                      "unhandled cuda error",
                                      "unhandled system error",
                                      "internal error",
                                      "invalid argument",
                                      "invalid usage",
                                      "remote process exited or there was a network error",
                                      "in progress"};
  return texts[result & 7];
}

const char *ncclGetLastError(ring_nccl_comm comm) {
  (void)comm;
  return "the stub of NCCL";
}

ring_nccl_result ncclGetUniqueId(ring_nccl_unique_id *result) {
  id_text id = {.address = "127.0.0.1"};
  if (fails("id", 0, 0)) return RING_NCCL_SYSTEM_ERROR;
  if (getrandom(id.secret, sizeof id.secret, 0) != sizeof id.secret) return RING_NCCL_SYSTEM_ERROR;
  snprintf(id.job, sizeof id.job, "nccl-%02x%02x%02x%02x", id.secret[0], id.secret[1], id.secret[2],
           id.secret[3]);
  memset(result, 0, sizeof *result);
  memcpy(result, &id, sizeof id);
  return RING_NCCL_SUCCESS;
}

static int interrupts(void *arg) {
  const struct ncclComm *comm = arg;
  return get(&comm->aborted);
}

/* A number of the GPU and, as NCCL tells hosts apart, of the environment. */
static int gpu_of(ring_cuda_gpu number) {
  unsigned hash = 5381;
  const char *host = getenv("NCCL_HOSTID");
  for (; host != NULL && *host != '\0'; host++) hash = hash * 33 + (unsigned char)*host;
  return (int)(hash << 4 | (unsigned)number);
}

/* NCCL refuses two ranks of a host on one GPU. */
static int check_gpus(ring_nccl_comm comm) {
  int all[64] = {0};
  if (ring_allgather(comm->ring, &comm->gpu, all, 1, RING_INT32) != RING_OK)
    return RING_NCCL_REMOTE_ERROR;
  for (int i = 0; i < comm->size; i++)
    for (int j = 0; j < i; j++)
      if (all[i] == all[j]) return RING_NCCL_INVALID_USAGE;
  return RING_NCCL_SUCCESS;
}

static void *open_ranks(void *arg) {
  ring_nccl_comm comm = arg;
  ring_options options = RING_OPTIONS_INIT;
  options.rank = comm->rank;
  options.size = comm->size;
  options.root_address = comm->id.address;
  options.token = comm->id.secret;
  options.token_length = sizeof comm->id.secret;
  options.job = comm->id.job;
  options.timeout = 60;
  options.interrupt = interrupts;
  options.interrupt_arg = comm;
  if (ring_comm_open(&options, &comm->ring, NULL) != RING_OK ||
      ring_messages_open(comm->ring, &comm->messages) != RING_OK)
    set_state(comm, RING_NCCL_REMOTE_ERROR);
  else
    set_state(comm, check_gpus(comm));
  return NULL;
}

ring_nccl_result ncclCommInitRankConfig(ring_nccl_comm *result, int size, ring_nccl_unique_id id,
                                        int rank, ring_nccl_config *config) {
  *result = NULL;
  if (config->magic != RING_NCCL_CONFIG_MAGIC || config->size != sizeof *config)
    return RING_NCCL_INVALID_ARGUMENT;
  if (fails("die", rank, 0)) raise(SIGKILL);
  if (fails("init", rank, 0)) return RING_NCCL_INTERNAL_ERROR;
  ring_nccl_comm comm = calloc(1, sizeof *comm);
  if (comm == NULL || cuCtxGetDevice(&comm->gpu) != RING_CUDA_SUCCESS) abort();
  comm->gpu = gpu_of(comm->gpu);
  memcpy(&comm->id, &id, sizeof comm->id);
  comm->rank = rank;
  comm->size = size;
  comm->blocking = config->blocking;
  comm->references = 1;
  comm->state = RING_NCCL_IN_PROGRESS;
  comm->opening = !fails("pending", rank, 0);
  if (comm->opening && pthread_create(&comm->opener, NULL, open_ranks, comm) != 0) abort();
  *result = comm;
  if (config->blocking == 0) return RING_NCCL_IN_PROGRESS;
  if (comm->opening) pthread_join(comm->opener, NULL);
  comm->opening = 0;
  return get(&comm->state);
}

ring_nccl_result ncclCommGetAsyncError(ring_nccl_comm comm, ring_nccl_result *result) {
  int launching = get(&comm->launching); /* first: its end comes after the state that it leads to */
  *result = get(&comm->state);
  if (*result == RING_NCCL_SUCCESS && launching) *result = RING_NCCL_IN_PROGRESS;
  return RING_NCCL_SUCCESS;
}

static void set_launching(ring_nccl_comm comm, int launching) {
  pthread_mutex_lock(&lock);
  __atomic_store_n(&comm->launching, launching, __ATOMIC_SEQ_CST);
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
}

/* Runs a function on a thread of its own; the communicator is in progress until the function ends that. */
static ring_nccl_result begin_launch(ring_nccl_comm comm, void *(*function)(void *arg), void *arg) {
  pthread_t thread;
  set_launching(comm, 1);
  if (pthread_create(&thread, NULL, function, arg) != 0) abort();
  pthread_detach(thread);
  return RING_NCCL_IN_PROGRESS;
}

/* ---- Ending -------------------------------------------------------------------------------- */

/* Called with the lock. */
static void release(ring_nccl_comm comm) {
  if (--comm->references == 0) free(comm);
}

static void end(ring_nccl_comm comm, int aborts) {
  pthread_mutex_lock(&lock);
  __atomic_store_n(&comm->aborted, aborts, __ATOMIC_SEQ_CST);
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  if (comm->opening) pthread_join(comm->opener, NULL);
  pthread_mutex_lock(&lock);
  while (comm->running || get(&comm->launching)) pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
  if (!aborts && comm->messages != NULL) ring_messages_close(comm->messages);
  if (!aborts && comm->ring != NULL) ring_comm_close(comm->ring);
  ring_messages_free(comm->messages);
  ring_comm_free(comm->ring);
  pthread_mutex_lock(&lock);
  comm->aborted = 1;
  release(comm);
  pthread_mutex_unlock(&lock);
}

static void *finalize(void *arg) {
  usleep(LAUNCH_US);
  set_launching(arg, 0);
  return NULL;
}

ring_nccl_result ncclCommFinalize(ring_nccl_comm comm) {
  return begin_launch(comm, finalize, comm);
}

ring_nccl_result ncclCommDestroy(ring_nccl_comm comm) {
  end(comm, 0);
  return RING_NCCL_SUCCESS;
}

ring_nccl_result ncclCommAbort(ring_nccl_comm comm) {
  if (get(&comm->abort_hangs) && comm->opening) pthread_join(comm->opener, NULL);
  while (get(&comm->abort_hangs)) pause();
  end(comm, 1);
  return RING_NCCL_SUCCESS;
}

/* ---- Work ---------------------------------------------------------------------------------- */

static ring_status exchange(const work *of) {
  ring_messages *messages = of->comm->messages;
  ring_status status = RING_OK;
  ring_transfer **transfers = calloc((size_t)of->message_count, sizeof *transfers);
  if (transfers == NULL) abort();
  for (int i = 0; i < of->message_count && status == RING_OK; i++) {
    const message *m = &of->messages[i];
    status = m->sends ? ring_messages_send_start(messages, m->memory, m->bytes, RING_UINT8, m->peer,
                                                 1, &transfers[i])
                      : ring_messages_recv_start(messages, m->memory, m->bytes, RING_UINT8, m->peer,
                                                 1, &transfers[i]);
  }
  for (int i = 0; i < of->message_count; i++) {
    if (transfers[i] == NULL) continue;
    ring_status ended = ring_transfer_wait(transfers[i]);
    if (status == RING_OK) status = ended;
    ring_transfer_free(transfers[i]);
  }
  free(transfers);
  return status;
}

static ring_status run(const work *of);

static ring_status run_group(const work *of) {
  ring_status status = RING_OK;
  for (int i = 0; i < of->part_count && status == RING_OK; i++) status = run(&of->parts[i]);
  return status;
}

static ring_status run(const work *of) {
  ring_comm *ring = of->comm->ring;
  if (of->factor != 1 && of->kind <= REDUCE_SCATTER && of->kind != BROADCAST &&
      of->kind != ALLGATHER)
    ring_comm_scale(ring, of->factor, 1);
  switch (of->kind) {
  case GROUP:
    return run_group(of);
  case ALLREDUCE:
    return ring_allreduce(ring, of->input, of->output, of->count, of->dtype, of->op);
  case REDUCE:
    return ring_reduce(ring, of->input, of->output, of->count, of->dtype, of->op, of->root);
  case BROADCAST:
    return ring_broadcast(ring, of->input, of->output, of->count, of->dtype, of->root);
  case ALLGATHER:
    return ring_allgather(ring, of->input, of->output, of->count, of->dtype);
  case REDUCE_SCATTER:
    return ring_reduce_scatter(ring, of->input, of->output, of->count, of->dtype, of->op);
  default:
    return exchange(of);
  }
}

/* On the stream: waits for its turn among the work of the communicator, on other streams, too. */
static void run_in_turn(void *arg) {
  work *of = arg;
  ring_nccl_comm comm = of->comm;
  pthread_mutex_lock(&lock);
  while (!get(&comm->aborted) && (of->turn != comm->turn || of->hangs))
    pthread_cond_wait(&changed, &lock);
  int runs = !get(&comm->aborted);
  comm->running += runs;
  pthread_mutex_unlock(&lock);
  if (runs && run(of) != RING_OK && !get(&comm->aborted)) {
    set_state(comm, RING_NCCL_REMOTE_ERROR);
    pthread_mutex_lock(&lock); /* as NCCL's kernels, which wait for the abort */
    comm->running = 0;
    pthread_cond_broadcast(&changed);
    while (!get(&comm->aborted)) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
  }
  pthread_mutex_lock(&lock);
  comm->running = 0;
  comm->turn = of->turn + 1;
  release(comm);
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  free(of->messages);
  free(of->parts);
  free(of);
}

static void drop(work *of) {
  pthread_mutex_lock(&lock);
  release(of->comm);
  pthread_mutex_unlock(&lock);
  free(of->messages);
  free(of->parts);
  free(of);
}

static ring_nccl_result launch(work *of) {
  ring_nccl_comm comm = of->comm;
  if (fails("async", comm->rank, of->turn + 1)) set_state(comm, RING_NCCL_INTERNAL_ERROR);
  return cuLaunchHostFunc(of->stream, run_in_turn, of) == RING_CUDA_SUCCESS
             ? RING_NCCL_SUCCESS
             : RING_NCCL_UNHANDLED_CUDA_ERROR;
}

/* The thread of a call in progress. The communicator lives until it is no longer launching. */
static void *launch_later(void *arg) {
  work *of = arg;
  ring_nccl_comm comm = of->comm;
  usleep(LAUNCH_US);
  pthread_mutex_lock(&lock);
  while (of->stuck && !get(&comm->aborted)) pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
  if (of->later) set_state(comm, RING_NCCL_INVALID_USAGE);
  if (of->later || of->stuck) {
    drop(of);
  } else if (cuCtxPushCurrent_v2(of->context) != RING_CUDA_SUCCESS ||
             launch(of) != RING_NCCL_SUCCESS) {
    set_state(comm, RING_NCCL_UNHANDLED_CUDA_ERROR);
  }
  set_launching(comm, 0);
  return NULL;
}

static ring_nccl_result refuse(const work *given) {
  ring_nccl_comm comm = given->comm;
  ring_nccl_result state;
  ncclCommGetAsyncError(comm, &state);
  if (state == RING_NCCL_IN_PROGRESS) return RING_NCCL_INVALID_ARGUMENT;
  if (fails("abort", comm->rank, comm->calls + 1))
    __atomic_store_n(&comm->abort_hangs, 1, __ATOMIC_SEQ_CST);
  if (get(&comm->abort_hangs) || fails("refuse", comm->rank, comm->calls + 1))
    return RING_NCCL_INVALID_USAGE;
  return RING_NCCL_SUCCESS;
}

ring_nccl_result stub_nccl_append(const work *given, ring_nccl_stream stream) {
  ring_nccl_comm comm = given->comm;
  ring_nccl_result refused = refuse(given);
  work *of = malloc(sizeof *of);
  if (of == NULL) abort();
  *of = *given;
  if (refused != RING_NCCL_SUCCESS) {
    free(of->messages);
    free(of->parts);
    free(of);
    return refused;
  }
  of->stream = stream;
  if (cuCtxGetCurrent(&of->context) != RING_CUDA_SUCCESS) abort();
  pthread_mutex_lock(&lock);
  of->turn = comm->calls++;
  comm->references++;
  pthread_mutex_unlock(&lock);
  of->stuck = fails("stuck", comm->rank, comm->calls);
  of->later = fails("later", comm->rank, comm->calls);
  of->hangs = fails("hang", comm->rank, comm->calls) || fails("async", comm->rank, comm->calls);
  if (comm->size == 1 || comm->blocking) return launch(of);
  return begin_launch(comm, launch_later, of);
}
