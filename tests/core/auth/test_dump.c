/* SPDX-License-Identifier: Apache-2.0
 *
 * What a core file of a rank would hold: every page of this process but those that the kernel leaves
 * out (VmFlags dd). Neither the token nor a key may be in them, as bytes or as text, during the
 * rendezvous, while a communicator is open, after it has failed and after it is closed. Each time the
 * test also checks that the search finds what is there. Afterwards no page with secrets is left, and a
 * forked child has none.
 *
 * The search must not find its own patterns, so they lie in pages that are left out, as the caller's
 * token does.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/comm_state.h"
#include "auth/seal.h"
#include "check.h"
#include "ranks.h"

enum { RANKS = 3, TOKEN = 40, NEEDLES = 3 + 8 * RANKS };

typedef struct needle {
  char name[32];
  size_t length;
  uint8_t bytes[64];
} needle;

/* All that this test itself knows of secrets. */
typedef struct knowledge {
  uint8_t token[TOKEN];
  int count;
  needle needles[2 * NEEDLES];
  uint8_t page[1 << 16]; /* of this process, under the search */
} knowledge;

static knowledge *known;

/* ---- Searching ---------------------------------------------------------------------------- */

/* Whether a mapping has this flag; reads up to the line of flags. */
static bool read_flags(FILE *smaps, const char *flag) {
  char line[512];
  while (fgets(line, sizeof line, smaps) != NULL)
    if (strncmp(line, "VmFlags:", 8) == 0) return strstr(line, flag) != NULL;
  return false;
}

/* The name of what lies in a piece of memory, or NULL. */
static const char *search_piece(const uint8_t *piece, size_t length) {
  for (int i = 0; i < known->count; i++)
    if (memmem(piece, length, known->needles[i].bytes, known->needles[i].length) != NULL)
      return known->needles[i].name;
  return NULL;
}

/* Pieces overlap by what is looked for. */
static const char *search_mapping(int memory, unsigned long from, unsigned long to) {
  const char *found = NULL;
  const size_t overlap = sizeof known->needles[0].bytes;
  while (from < to && found == NULL) {
    size_t length = to - from < sizeof known->page ? to - from : sizeof known->page;
    ssize_t got = pread(memory, known->page, length, (off_t)from);
    if (got <= 0) break;
    found = search_piece(known->page, (size_t)got);
    from += (size_t)got > overlap && from + (size_t)got < to ? (size_t)got - overlap : (size_t)got;
  }
  return found;
}

/* The name of a secret that a core file would hold, or NULL; *left_out counts the mappings that it
 * would not have. */
static const char *search(int *left_out) {
  char line[512], access[8];
  unsigned long from, to;
  const char *found = NULL;
  int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  FILE *smaps = fopen("/proc/self/smaps", "re");
  CHECK(memory >= 0 && smaps != NULL);
  *left_out = 0;
  while (found == NULL && fgets(line, sizeof line, smaps) != NULL) {
    if (sscanf(line, "%lx-%lx %7s", &from, &to, access) != 3) continue;
    bool skipped = read_flags(smaps, " dd") || access[0] != 'r';
    *left_out += skipped && access[0] == 'r' && access[3] == 'p';
    if (!skipped) found = search_mapping(memory, from, to);
  }
  fclose(smaps);
  close(memory);
  return found;
}

/* ---- What to look for --------------------------------------------------------------------- */

static void look_for(const char *name, const void *bytes, size_t length) {
  needle *made = &known->needles[known->count++];
  CHECK(known->count <= 2 * NEEDLES && length <= sizeof made->bytes);
  snprintf(made->name, sizeof made->name, "%s", name);
  memcpy(made->bytes, bytes, made->length = length);
}

/* As bytes, and the beginning as text. */
static void look_for_secret(const char *name, const void *bytes, size_t length) {
  static const char digits[] = "0123456789abcdef";
  const uint8_t *from = bytes;
  look_for(name, bytes, length);
  needle *text = &known->needles[known->count++];
  snprintf(text->name, sizeof text->name, "%.20s as text", name);
  text->length = 32;
  for (size_t i = 0; i < 16; i++) {
    text->bytes[2 * i] = (uint8_t)digits[from[i] >> 4];
    text->bytes[2 * i + 1] = (uint8_t)digits[from[i] & 15];
  }
}

/* The linker sends the core here: only TLS has the key of a link, until both ends are certain. */
ring_link *__real_ring_link_tls(ring_link *under, bool connecting, const ring_secret *key);
ring_link *__wrap_ring_link_tls(ring_link *under, bool connecting, const ring_secret *key);
ring_link *__wrap_ring_link_tls(ring_link *under, bool connecting, const ring_secret *key) {
  look_for_secret("the key of a link", key->bytes, sizeof key->bytes);
  return __real_ring_link_tls(under, connecting, key);
}

/* And the keys of a rendezvous are gone when it is over. */
static int seals;
static const ring_keys *job_keys;

bool __real_ring_seal_begin(ring_seal *seal, const ring_handshake *handshake);
bool __wrap_ring_seal_begin(ring_seal *seal, const ring_handshake *handshake);
bool __wrap_ring_seal_begin(ring_seal *seal, const ring_handshake *handshake) {
  bool begun = __real_ring_seal_begin(seal, handshake);
  look_for_secret("a key of the rendezvous to send", seal->send_key.bytes, RING_SECRET_BYTES);
  look_for_secret("a key of the rendezvous to receive", seal->receive_key.bytes, RING_SECRET_BYTES);
  seals++;
  return begun;
}

bool __real_ring_keys_init(ring_keys *keys, int rank, int size);
bool __wrap_ring_keys_init(ring_keys *keys, int rank, int size);
bool __wrap_ring_keys_init(ring_keys *keys, int rank, int size) {
  job_keys = keys;
  return __real_ring_keys_init(keys, rank, size);
}

static void learn_keys(const ring_comm *comm) {
  const ring_keys *keys = &comm->peers.keys;
  look_for_secret("the job's key", keys->vault->job.bytes, RING_SECRET_BYTES);
  if (keys->publics == NULL) return;
  look_for_secret("the private key", keys->vault->own.bytes, RING_SECRET_BYTES);
  for (int rank = 0; rank < keys->size; rank++) {
    if (!keys->pairs[rank].known) continue;
    look_for_secret("the key of a pair", keys->pairs[rank].key.bytes, RING_SECRET_BYTES);
  }
}

/* Finds nothing but, for proof that it can, what is put where core files have it. */
static int check_memory(const char *when) {
  int left_out;
  const char *found = search(&left_out);
  if (found != NULL) fprintf(stderr, "%s: a core file would hold %s\n", when, found);
  CHECK(found == NULL);
  for (int i = 0; i < known->count; i++) {
    int more;
    uint8_t *leak = malloc(256);
    memcpy(leak + 100, known->needles[i].bytes, known->needles[i].length);
    CHECK(search(&more) != NULL);
    ring_secret_wipe(leak, 256);
    free(leak);
  }
  return left_out;
}

/* ---- Ranks -------------------------------------------------------------------------------- */

typedef struct exchange {
  pthread_barrier_t all;
  char texts[RANKS][200];
  bool used;
} exchange;

static exchange *texts; /* in memory of all ranks */

static int pass_texts(void *arg, const char *mine, ring_exchange_put_fn put, void *sink) {
  look_for_secret("the private key", job_keys->vault->own.bytes, RING_SECRET_BYTES);
  check_memory("exchanging");
  snprintf(texts->texts[*(const int *)arg], sizeof texts->texts[0], "%s", mine);
  pthread_barrier_wait(&texts->all);
  for (int rank = 0; rank < RANKS; rank++) put(sink, rank, texts->texts[rank]);
  pthread_barrier_wait(&texts->all);
  return 0;
}

static int count_left_out(void) {
  int left_out;
  search(&left_out);
  return left_out;
}

/* A child has the same memory, but zeros where the secrets were; and may free. */
static void check_child(ring_comm *comm) {
  int status;
  pid_t child = fork();
  if (child == 0) {
    static const ring_secret zeros;
    if (memcmp(&comm->peers.keys.vault->job, &zeros, sizeof zeros) != 0) _exit(1);
    ring_comm_free(comm);
    _exit(0);
  }
  CHECK_INT(waitpid(child, &status, 0), child);
  CHECK_INT(status, 0);
}

/* Makes a token, and looks for it; how many mappings are left out now. */
static int prepare_search(void) {
  known = mmap(NULL, sizeof *known, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(known != MAP_FAILED);
  CHECK_INT(madvise(known, sizeof *known, MADV_DONTDUMP), 0);
  int before = count_left_out();
  for (int i = 0; i < TOKEN; i++) known->token[i] = (uint8_t)(getppid() * 7 + i * 31);
  look_for_secret("the token", known->token, TOKEN);
  return before;
}

static void be_searched(int rank, int size, void *shared) {
  ring_options options = rank_options(rank, size);
  ring_comm *comm, *half;
  double x[100] = {1};
  texts = shared;
  int before = prepare_search();
  options.token = known->token;
  options.token_length = TOKEN;
  if (texts->used) options.exchange = pass_texts;
  options.exchange_arg = &rank;
  options.encryption = RING_ON;
  options.shared_memory = RING_OFF;
  comm = open_with(&options);
  for (int i = 0; i < 3; i++)
    CHECK_INT(ring_allreduce(comm, x, x, 100, RING_FLOAT64, RING_SUM), RING_OK);
  CHECK_INT(ring_comm_split(comm, rank / 2, 0, &half), RING_OK);
  learn_keys(comm);
  CHECK(known->count >= 2 * (texts->used ? 5 : 3));
  CHECK(check_memory("open") > before);
  check_child(comm);
  CHECK_INT(ring_barrier(comm), RING_OK);
  ring_comm_abort(half, "to see what is left");
  check_memory("aborted");
  CHECK_INT(ring_comm_close(comm), RING_OK);
  CHECK_INT(check_memory("closed"), before);
  ring_comm_free(half);
  ring_comm_free(comm);
  CHECK_INT(check_memory("freed"), before);
}

static void run_searched(bool exchanged) {
  exchange *shared = shared_alloc(sizeof *shared);
  pthread_barrierattr_t attributes;
  pthread_barrierattr_init(&attributes);
  pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&shared->all, &attributes, RANKS);
  shared->used = exchanged;
  run_ranks(RANKS, be_searched, shared);
  pthread_barrier_destroy(&shared->all);
  shared_free(shared, sizeof *shared);
}

static void test_a_token(void) {
  run_searched(false);
}

static void test_an_exchange(void) {
  run_searched(true);
}

/* ---- During the rendezvous ---------------------------------------------------------------------- */

static bool searched;

/* Ranks that wait for others search themselves, once they share a key with one. */
static int search_meanwhile(void *arg) {
  int *count = arg;
  if (searched || seals == 0) return 0;
  look_for_secret("the job's key", job_keys->vault->job.bytes, RING_SECRET_BYTES);
  check_memory("rendezvous");
  searched = true;
  __sync_fetch_and_add(count, 1);
  return 0;
}

/* The last rank comes when rank 0 and the other pending connection have searched. */
static void open_and_search(int rank, int size, void *shared) {
  ring_options options = rank_options(rank, size);
  volatile int *count = shared;
  int before = prepare_search();
  options.token = known->token;
  options.token_length = TOKEN;
  options.interrupt = search_meanwhile;
  options.interrupt_arg = shared;
  for (int tries = 0; rank == size - 1 && *count < size - 1; tries++) {
    CHECK(tries < 30000);
    usleep(1000);
  }
  ring_comm *comm = open_with(&options);
  CHECK_INT(seals, rank == 0 ? size - 1 : 1);
  CHECK(rank == size - 1 || searched);
  check_memory("after the rendezvous");
  close_rank(comm);
  CHECK_INT(check_memory("freed"), before);
}

static void test_a_rendezvous(void) {
  int *count = shared_alloc(sizeof *count);
  run_ranks(RANKS, open_and_search, count);
  CHECK(*count >= RANKS - 1); /* the last one, too, when it is slow */
  shared_free(count, sizeof *count);
}

int main(void) {
  RUN(test_a_rendezvous);
  RUN(test_a_token);
  RUN(test_an_exchange);
  return 0;
}
