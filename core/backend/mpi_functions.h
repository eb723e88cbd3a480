/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls of MPI, for one kind of handle: the body of a source, which each includes once, so there is no guard. A
 * source that includes this file has defined RING_MPI_HANDLE, the type of a handle; RING_MPI_NAME(name), which
 * makes the name of a static of that kind; RING_MPI_GET(handle) and RING_MPI_KEEP(value), which convert
 * ring_mpi_handle. No other file includes it.
 */

/* X(name without MPI_, arguments). */
#define RING_MPI_FUNCTION_MAP(X)                                                                   \
  X(Initialized, (int *))                                                                          \
  X(Finalized, (int *))                                                                            \
  X(Init_thread, (int *, char ***, int, int *))                                                    \
  X(Query_thread, (int *))                                                                         \
  X(Finalize, (void))                                                                              \
  X(Comm_rank, (RING_MPI_HANDLE, int *))                                                           \
  X(Comm_size, (RING_MPI_HANDLE, int *))                                                           \
  X(Comm_group, (RING_MPI_HANDLE, RING_MPI_HANDLE *))                                              \
  X(Group_incl, (RING_MPI_HANDLE, int, const int *, RING_MPI_HANDLE *))                            \
  X(Group_free, (RING_MPI_HANDLE *))                                                               \
  X(Comm_create_group, (RING_MPI_HANDLE, RING_MPI_HANDLE, int, RING_MPI_HANDLE *))                 \
  X(Comm_set_errhandler, (RING_MPI_HANDLE, RING_MPI_HANDLE))                                       \
  X(Comm_free, (RING_MPI_HANDLE *))                                                                \
  X(Op_create, (void (*)(void *, void *, int *, RING_MPI_HANDLE *), int, RING_MPI_HANDLE *))       \
  X(Error_class, (int, int *))                                                                     \
  X(Error_string, (int, char *, int *))                                                            \
  X(Iprobe, (int, int, RING_MPI_HANDLE, int *, void *))                                            \
  X(Test, (RING_MPI_HANDLE *, int *, void *))                                                      \
  X(Isend, (const void *, int, RING_MPI_HANDLE, int, int, RING_MPI_HANDLE, RING_MPI_HANDLE *))     \
  X(Irecv, (void *, int, RING_MPI_HANDLE, int, int, RING_MPI_HANDLE, RING_MPI_HANDLE *))           \
  X(Ibarrier, (RING_MPI_HANDLE, RING_MPI_HANDLE *))                                                \
  X(Ibcast, (void *, int, RING_MPI_HANDLE, int, RING_MPI_HANDLE, RING_MPI_HANDLE *))               \
  X(Ireduce, (const void *, void *, int, RING_MPI_HANDLE, RING_MPI_HANDLE, int, RING_MPI_HANDLE,   \
              RING_MPI_HANDLE *))                                                                  \
  X(Iallreduce, (const void *, void *, int, RING_MPI_HANDLE, RING_MPI_HANDLE, RING_MPI_HANDLE,     \
                 RING_MPI_HANDLE *))                                                               \
  X(Ireduce_scatter_block, (const void *, void *, int, RING_MPI_HANDLE, RING_MPI_HANDLE,           \
                            RING_MPI_HANDLE, RING_MPI_HANDLE *))                                   \
  X(Ireduce_scatter, (const void *, void *, const int *, RING_MPI_HANDLE, RING_MPI_HANDLE,         \
                      RING_MPI_HANDLE, RING_MPI_HANDLE *))                                         \
  X(Iscan, (const void *, void *, int, RING_MPI_HANDLE, RING_MPI_HANDLE, RING_MPI_HANDLE,          \
            RING_MPI_HANDLE *))                                                                    \
  X(Iexscan, (const void *, void *, int, RING_MPI_HANDLE, RING_MPI_HANDLE, RING_MPI_HANDLE,        \
              RING_MPI_HANDLE *))                                                                  \
  X(Iallgather, (const void *, int, RING_MPI_HANDLE, void *, int, RING_MPI_HANDLE,                 \
                 RING_MPI_HANDLE, RING_MPI_HANDLE *))                                              \
  X(Iallgatherv, (const void *, int, RING_MPI_HANDLE, void *, const int *, const int *,            \
                  RING_MPI_HANDLE, RING_MPI_HANDLE, RING_MPI_HANDLE *))                            \
  X(Igather, (const void *, int, RING_MPI_HANDLE, void *, int, RING_MPI_HANDLE, int,               \
              RING_MPI_HANDLE, RING_MPI_HANDLE *))                                                 \
  X(Igatherv, (const void *, int, RING_MPI_HANDLE, void *, const int *, const int *,               \
               RING_MPI_HANDLE, int, RING_MPI_HANDLE, RING_MPI_HANDLE *))                          \
  X(Iscatter, (const void *, int, RING_MPI_HANDLE, void *, int, RING_MPI_HANDLE, int,              \
               RING_MPI_HANDLE, RING_MPI_HANDLE *))                                                \
  X(Iscatterv, (const void *, const int *, const int *, RING_MPI_HANDLE, void *, int,              \
                RING_MPI_HANDLE, int, RING_MPI_HANDLE, RING_MPI_HANDLE *))                         \
  X(Ialltoall, (const void *, int, RING_MPI_HANDLE, void *, int, RING_MPI_HANDLE, RING_MPI_HANDLE, \
                RING_MPI_HANDLE *))                                                                \
  X(Ialltoallv, (const void *, const int *, const int *, RING_MPI_HANDLE, void *, const int *,     \
                 const int *, RING_MPI_HANDLE, RING_MPI_HANDLE, RING_MPI_HANDLE *))

static struct {
#define RING_MPI_FIELD(name, arguments) int(*name) arguments;
  RING_MPI_FUNCTION_MAP(RING_MPI_FIELD)
#undef RING_MPI_FIELD
} RING_MPI_NAME(call);

typedef struct RING_MPI_NAME(constants) {
  RING_MPI_HANDLE types[RING_DTYPE_COUNT];
  RING_MPI_HANDLE ops[RING_MPI_OPS]; /* behind MPI's: ours, once they are made */
#define RING_MPI_FIELD(name, mpi, mpich, standard, open_mpi) RING_MPI_HANDLE name;
  RING_MPI_OBJECT_MAP(RING_MPI_FIELD)
#undef RING_MPI_FIELD
#define RING_MPI_FIELD(name, mpi, mpich, standard, open_mpi) int name;
  RING_MPI_NUMBER_MAP(RING_MPI_FIELD)
#undef RING_MPI_FIELD
#define RING_MPI_FIELD(name, mpi, mpich, standard, open_mpi) void *name;
  RING_MPI_SENTINEL_MAP(RING_MPI_FIELD)
#undef RING_MPI_FIELD
} RING_MPI_NAME(constants);

/* Of the loaded library. */
static RING_MPI_NAME(constants) RING_MPI_NAME(its);

/* ---- Finding ------------------------------------------------------------------------------ */

/* POSIX converts a data pointer to a function pointer; ISO C does not. */
static const char *RING_MPI_NAME(find_functions)(void *library) {
  static const struct {
    const char *name;
    void *place;
  } functions[] = {
#define RING_MPI_ROW(name, arguments) {"MPI_" #name, &RING_MPI_NAME(call).name},
      RING_MPI_FUNCTION_MAP(RING_MPI_ROW)
#undef RING_MPI_ROW
  };
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    void *found = dlsym(library, functions[i].name);
    if (found == NULL) return functions[i].name;
    memcpy(functions[i].place, &found, sizeof found);
  }
  return NULL;
}

/* ---- The process -------------------------------------------------------------------------- */

static int RING_MPI_NAME(state)(int *initialized, int *finalized) {
  int code = RING_MPI_NAME(call).Initialized(initialized);
  return code == 0 ? RING_MPI_NAME(call).Finalized(finalized) : code;
}

static bool RING_MPI_NAME(is_finalized)(void) {
  int finalized = 0;
  return RING_MPI_NAME(call).Finalized(&finalized) != 0 || finalized;
}

/* Errors without a communicator go to MPI_COMM_SELF since MPI 4, and to MPI_COMM_WORLD before. */
static int RING_MPI_NAME(init)(void) {
  int provided;
  int code = RING_MPI_NAME(call).Init_thread(NULL, NULL, RING_MPI_NAME(its).multiple, &provided);
  if (code != 0) return code;
  code = RING_MPI_NAME(call).Comm_set_errhandler(RING_MPI_NAME(its).self,
                                                 RING_MPI_NAME(its).errors_return);
  if (code != 0) return code;
  return RING_MPI_NAME(call).Comm_set_errhandler(RING_MPI_NAME(its).world,
                                                 RING_MPI_NAME(its).errors_return);
}

static int RING_MPI_NAME(threads)(ring_mpi_threads *threads) {
  int provided = 0;
  int code = RING_MPI_NAME(call).Query_thread(&provided);
  *threads = provided >= RING_MPI_NAME(its).multiple     ? RING_MPI_AT_ONCE
             : provided >= RING_MPI_NAME(its).serialized ? RING_MPI_IN_TURNS
                                                         : RING_MPI_ONE_THREAD;
  return code;
}

static int RING_MPI_NAME(finalize)(void) {
  return RING_MPI_NAME(call).Finalize();
}

/* A probe that finds no message progresses everything that MPI has under way, also on other communicators. MPICH's
 * does not on MPI_COMM_SELF. Tags up to the least limit that MPI allows are valid; few programs use that limit. */
static int RING_MPI_NAME(progress)(void) {
  enum { TAG = 32767 };
  int found;
  return RING_MPI_NAME(call).Iprobe(RING_MPI_NAME(its).any_source, TAG, RING_MPI_NAME(its).world,
                                    &found, RING_MPI_NAME(its).status_ignore);
}

static int RING_MPI_NAME(world)(int *rank, int *size) {
  int code = RING_MPI_NAME(call).Comm_rank(RING_MPI_NAME(its).world, rank);
  return code == 0 ? RING_MPI_NAME(call).Comm_size(RING_MPI_NAME(its).world, size) : code;
}

/* ---- Ops of ours -------------------------------------------------------------------------- */

#define RING_MPI_OWN_OP(name, of_dtype, of_op)                                                     \
  static void RING_MPI_NAME(name)(void *input, void *output, int *count, RING_MPI_HANDLE *type) {  \
    const ring_reduction reduction = {.dtype = of_dtype, .op = of_op};                             \
    (void)type;                                                                                    \
    ring_reduction_apply(&reduction, output, input, output, (size_t)*count);                       \
  }
RING_MPI_OWN_OP_MAP(RING_MPI_OWN_OP)
#undef RING_MPI_OWN_OP

static int RING_MPI_NAME(make_ops)(void) {
  static const struct {
    ring_mpi_op op;
    void (*function)(void *, void *, int *, RING_MPI_HANDLE *);
  } own[] = {
#define RING_MPI_ROW(name, dtype, op) {RING_MPI_##name, RING_MPI_NAME(name)},
      RING_MPI_OWN_OP_MAP(RING_MPI_ROW)
#undef RING_MPI_ROW
  };
  int code = 0;
  for (size_t i = 0; i < sizeof own / sizeof *own && code == 0; i++)
    code = RING_MPI_NAME(call).Op_create(own[i].function, 1, &RING_MPI_NAME(its).ops[own[i].op]);
  return code;
}

/* ---- Communicators ------------------------------------------------------------------------ */

static int RING_MPI_NAME(form)(const int *ranks, int count, int tag, ring_mpi_handle *comm) {
  RING_MPI_HANDLE everyone, group, formed;
  int code = RING_MPI_NAME(call).Comm_group(RING_MPI_NAME(its).world, &everyone);
  if (code != 0) return code;
  code = RING_MPI_NAME(call).Group_incl(everyone, count, ranks, &group);
  RING_MPI_NAME(call).Group_free(&everyone);
  if (code != 0) return code;
  code = RING_MPI_NAME(call).Comm_create_group(RING_MPI_NAME(its).world, group, tag, &formed);
  RING_MPI_NAME(call).Group_free(&group);
  if (code != 0) return code;
  *comm = RING_MPI_KEEP(formed);
  return RING_MPI_NAME(call).Comm_set_errhandler(formed, RING_MPI_NAME(its).errors_return);
}

static int RING_MPI_NAME(release)(ring_mpi_handle *comm) {
  RING_MPI_HANDLE formed = RING_MPI_GET(*comm);
  return RING_MPI_NAME(call).Comm_free(&formed);
}

/* ---- Collectives -------------------------------------------------------------------------- */

static int RING_MPI_NAME(start_reduction)(const ring_mpi_work *work, const void *send,
                                          RING_MPI_HANDLE comm, RING_MPI_HANDLE *request) {
  RING_MPI_HANDLE type = RING_MPI_NAME(its).types[work->dtype],
                  op = RING_MPI_NAME(its).ops[work->op];
  void *receive = work->receive;
  int count = work->count;
  switch (work->collective) {
  case RING_COLLECTIVE_REDUCE:
    return RING_MPI_NAME(call).Ireduce(send, receive, count, type, op, work->root, comm, request);
  case RING_COLLECTIVE_REDUCE_SCATTER:
    return RING_MPI_NAME(call).Ireduce_scatter_block(send, receive, count, type, op, comm, request);
  case RING_COLLECTIVE_REDUCE_SCATTERV:
    return RING_MPI_NAME(call).Ireduce_scatter(send, receive, work->receive_counts, type, op, comm,
                                               request);
  case RING_COLLECTIVE_SCAN:
    return RING_MPI_NAME(call).Iscan(send, receive, count, type, op, comm, request);
  case RING_COLLECTIVE_EXSCAN:
    return RING_MPI_NAME(call).Iexscan(send, receive, count, type, op, comm, request);
  default:
    return RING_MPI_NAME(call).Iallreduce(send, receive, count, type, op, comm, request);
  }
}

static int RING_MPI_NAME(start_scatter)(const ring_mpi_work *work, RING_MPI_HANDLE comm,
                                        RING_MPI_HANDLE *request) {
  RING_MPI_HANDLE type = RING_MPI_NAME(its).types[work->dtype];
  void *receive = work->receives_in_place ? RING_MPI_NAME(its).in_place : work->receive;
  if (work->collective == RING_COLLECTIVE_SCATTER)
    return RING_MPI_NAME(call).Iscatter(work->send, work->count, type, receive, work->count, type,
                                        work->root, comm, request);
  return RING_MPI_NAME(call).Iscatterv(work->send, work->send_counts, work->send_offsets, type,
                                       receive, work->count, type, work->root, comm, request);
}

static int RING_MPI_NAME(start_move)(const ring_mpi_work *work, const void *send,
                                     RING_MPI_HANDLE comm, RING_MPI_HANDLE *request) {
  RING_MPI_HANDLE type = RING_MPI_NAME(its).types[work->dtype];
  void *receive = work->receive;
  int count = work->count, root = work->root;
  const int *counts = work->receive_counts, *offsets = work->receive_offsets;
  switch (work->collective) {
  case RING_COLLECTIVE_BARRIER:
    return RING_MPI_NAME(call).Ibarrier(comm, request);
  case RING_COLLECTIVE_BROADCAST:
    return RING_MPI_NAME(call).Ibcast(receive, count, type, root, comm, request);
  case RING_COLLECTIVE_ALLGATHER:
    return RING_MPI_NAME(call).Iallgather(send, count, type, receive, count, type, comm, request);
  case RING_COLLECTIVE_ALLGATHERV:
    return RING_MPI_NAME(call).Iallgatherv(send, count, type, receive, counts, offsets, type, comm,
                                           request);
  case RING_COLLECTIVE_GATHER:
    return RING_MPI_NAME(call).Igather(send, count, type, receive, count, type, root, comm,
                                       request);
  case RING_COLLECTIVE_GATHERV:
    return RING_MPI_NAME(call).Igatherv(send, count, type, receive, counts, offsets, type, root,
                                        comm, request);
  case RING_COLLECTIVE_ALLTOALL:
    return RING_MPI_NAME(call).Ialltoall(send, count, type, receive, count, type, comm, request);
  case RING_COLLECTIVE_ALLTOALLV:
    return RING_MPI_NAME(call).Ialltoallv(send, work->send_counts, work->send_offsets, type,
                                          receive, counts, offsets, type, comm, request);
  default:
    return RING_MPI_NAME(start_scatter)(work, comm, request);
  }
}

static int RING_MPI_NAME(start)(ring_mpi_handle comm, const ring_mpi_work *work,
                                ring_mpi_handle *request) {
  const void *send = work->sends_in_place ? RING_MPI_NAME(its).in_place : work->send;
  RING_MPI_HANDLE started;
  int code = ring_collective_reduces(work->collective)
                 ? RING_MPI_NAME(start_reduction)(work, send, RING_MPI_GET(comm), &started)
                 : RING_MPI_NAME(start_move)(work, send, RING_MPI_GET(comm), &started);
  if (code == 0) *request = RING_MPI_KEEP(started);
  return code;
}

/* ---- Messages ----------------------------------------------------------------------------- */

/* Bytes: Open MPI packs floats of a long message piece by piece, which takes half as long again. */
static int RING_MPI_NAME(send)(ring_mpi_handle comm, const void *buffer, int bytes, int peer,
                               int tag, ring_mpi_handle *request) {
  RING_MPI_HANDLE started;
  int code = RING_MPI_NAME(call).Isend(buffer, bytes, RING_MPI_NAME(its).types[RING_UINT8], peer,
                                       tag, RING_MPI_GET(comm), &started);
  *request = RING_MPI_KEEP(started);
  return code;
}

static int RING_MPI_NAME(receive)(ring_mpi_handle comm, void *buffer, int bytes, int peer, int tag,
                                  ring_mpi_handle *request) {
  RING_MPI_HANDLE started;
  int code = RING_MPI_NAME(call).Irecv(buffer, bytes, RING_MPI_NAME(its).types[RING_UINT8], peer,
                                       tag, RING_MPI_GET(comm), &started);
  *request = RING_MPI_KEEP(started);
  return code;
}

static int RING_MPI_NAME(test)(ring_mpi_handle *request, int *done) {
  RING_MPI_HANDLE tested = RING_MPI_GET(*request);
  int code = RING_MPI_NAME(call).Test(&tested, done, RING_MPI_NAME(its).status_ignore);
  *request = RING_MPI_KEEP(tested);
  return code;
}

/* ---- Errors ------------------------------------------------------------------------------- */

static bool RING_MPI_NAME(is_truncation)(int code) {
  int class = code;
  RING_MPI_NAME(call).Error_class(code, &class);
  return class == RING_MPI_NAME(its).truncate;
}

static void RING_MPI_NAME(explain)(int code, char text[RING_MPI_TEXT]) {
  int length = 0;
  text[0] = '\0';
  RING_MPI_NAME(call).Error_string(code, text, &length);
  text[RING_MPI_TEXT - 1] = '\0';
}

#define RING_MPI_DRIVER(title, find_all)                                                           \
  {.name = title,                                                                                  \
   .find = find_all,                                                                               \
   .state = RING_MPI_NAME(state),                                                                  \
   .is_finalized = RING_MPI_NAME(is_finalized),                                                    \
   .init = RING_MPI_NAME(init),                                                                    \
   .threads = RING_MPI_NAME(threads),                                                              \
   .finalize = RING_MPI_NAME(finalize),                                                            \
   .progress = RING_MPI_NAME(progress),                                                            \
   .world = RING_MPI_NAME(world),                                                                  \
   .make_ops = RING_MPI_NAME(make_ops),                                                            \
   .form = RING_MPI_NAME(form),                                                                    \
   .release = RING_MPI_NAME(release),                                                              \
   .start = RING_MPI_NAME(start),                                                                  \
   .send = RING_MPI_NAME(send),                                                                    \
   .receive = RING_MPI_NAME(receive),                                                              \
   .test = RING_MPI_NAME(test),                                                                    \
   .is_truncation = RING_MPI_NAME(is_truncation),                                                  \
   .explain = RING_MPI_NAME(explain)}
