/* SPDX-License-Identifier: Apache-2.0
 *
 * The entry points of this library for R, by registration only.
 */
#include <R_ext/Rdynload.h>
#include <R_ext/Visibility.h>

#include "agree.h"
#include "batch_file.h"
#include "blame.h"
#include "checkpoint.h"
#include "child_process.h"
#include "clock.h"
#include "collective.h"
#include "columns.h"
#include "comm.h"
#include "coxph.h"
#include "digest.h"
#include "elastic_net.h"
#include "envelope.h"
#include "explain.h"
#include "gram.h"
#include "interrupt.h"
#include "kmeans.h"
#include "launcher.h"
#include "message.h"
#include "messages.h"
#include "nccl.h"
#include "parts.h"
#include "pmi.h"
#include "port.h"
#include "program.h"
#include "records.h"
#include "reducer.h"
#include "request.h"
#include "session.h"
#include "shared.h"
#include "stdio_redirect.h"
#include "trace.h"
#include "triangle.h"

/* The cast goes through void (*)(void), which compilers allow for any function. */
#define ENTRY(name, arguments) {#name, (DL_FUNC)(void (*)(void))name, arguments}

static const R_CallMethodDef entries[] = {ENTRY(comm_open, 16),
                                          ENTRY(comm_split, 3),
                                          ENTRY(comm_close, 2),
                                          ENTRY(comm_abort, 2),
                                          ENTRY(comm_rank, 1),
                                          ENTRY(comm_size, 1),
                                          ENTRY(comm_local_rank, 1),
                                          ENTRY(comm_local_size, 1),
                                          ENTRY(comm_hosts, 1),
                                          ENTRY(comm_authenticated, 1),
                                          ENTRY(comm_encrypted, 1),
                                          ENTRY(comm_state, 1),
                                          ENTRY(comm_counters, 2),
                                          ENTRY(comm_live, 0),
                                          ENTRY(agree_call, 3),
                                          ENTRY(agree_strings, 2),
                                          ENTRY(batch_file_open, 1),
                                          ENTRY(batch_file_read, 4),
                                          ENTRY(batch_file_close, 1),
                                          ENTRY(blame_weight, 1),
                                          ENTRY(blame_first, 3),
                                          ENTRY(envelope_trailer, 1),
                                          ENTRY(envelope_failure, 1),
                                          ENTRY(envelope_split, 2),
                                          ENTRY(envelope_check, 2),
                                          ENTRY(explain_call, 5),
                                          ENTRY(collective_allreduce, 5),
                                          ENTRY(collective_group, 7),
                                          ENTRY(collective_reduce, 6),
                                          ENTRY(collective_reduce_scatter, 5),
                                          ENTRY(collective_reduce_scatterv, 6),
                                          ENTRY(collective_scan, 5),
                                          ENTRY(collective_broadcast, 4),
                                          ENTRY(collective_barrier, 2),
                                          ENTRY(parts_allgather, 3),
                                          ENTRY(parts_gather, 4),
                                          ENTRY(parts_scatter, 4),
                                          ENTRY(parts_alltoall, 3),
                                          ENTRY(parts_extents, 3),
                                          ENTRY(parts_allgatherv, 4),
                                          ENTRY(parts_gatherv, 5),
                                          ENTRY(parts_scatterv, 5),
                                          ENTRY(parts_exchange, 3),
                                          ENTRY(parts_alltoallv, 6),
                                          ENTRY(message_send, 3),
                                          ENTRY(message_recv, 3),
                                          ENTRY(messages_open, 1),
                                          ENTRY(messages_send, 5),
                                          ENTRY(messages_recv, 3),
                                          ENTRY(messages_probe, 4),
                                          ENTRY(messages_close, 1),
                                          ENTRY(transfer_wait, 1),
                                          ENTRY(transfer_test, 1),
                                          ENTRY(transfer_info, 1),
                                          ENTRY(nccl_id, 2),
                                          ENTRY(port_reserve, 1),
                                          ENTRY(port_release, 2),
                                          ENTRY(reducer_open, 7),
                                          ENTRY(reducer_submit, 7),
                                          ENTRY(reducer_join, 1),
                                          ENTRY(reducer_close, 1),
                                          ENTRY(submission_wait, 1),
                                          ENTRY(submission_test, 1),
                                          ENTRY(request_wait, 1),
                                          ENTRY(request_test, 1),
                                          ENTRY(request_describe, 1),
                                          ENTRY(request_live, 0),
                                          ENTRY(session_refer, 2),
                                          ENTRY(session_value, 1),
                                          ENTRY(shared_alloc, 3),
                                          ENTRY(shared_is, 1),
                                          ENTRY(trace_measure_clock, 1),
                                          ENTRY(trace_start, 4),
                                          ENTRY(trace_stop, 1),
                                          ENTRY(triangle_of, 5),
                                          ENTRY(columns_join, 2),
                                          ENTRY(columns_sums, 3),
                                          ENTRY(columns_codes, 1),
                                          ENTRY(columns_scaled, 3),
                                          ENTRY(gram_of, 2),
                                          ENTRY(records_pack, 4),
                                          ENTRY(records_cumulate, 4),
                                          ENTRY(coxph_sweep, 5),
                                          ENTRY(coxph_residuals, 5),
                                          ENTRY(elastic_net_pass, 4),
                                          ENTRY(kmeans_nearest, 2),
                                          ENTRY(kmeans_assign, 5),
                                          ENTRY(kmeans_distance, 3),
                                          ENTRY(kmeans_sums, 3),
                                          ENTRY(stdio_open, 0),
                                          ENTRY(stdio_enter, 2),
                                          ENTRY(stdio_leave, 0),
                                          ENTRY(child_become, 1),
                                          ENTRY(stdio_read, 2),
                                          ENTRY(stdio_write, 3),
                                          ENTRY(stdio_close, 1),
                                          ENTRY(child_kill, 1),
                                          ENTRY(child_parent, 0),
                                          ENTRY(child_gone, 1),
                                          ENTRY(child_watch, 1),
                                          ENTRY(child_end, 1),
                                          ENTRY(checkpoint_name, 1),
                                          ENTRY(checkpoint_numbers, 1),
                                          ENTRY(checkpoint_is_old, 2),
                                          ENTRY(checkpoint_length, 1),
                                          ENTRY(checkpoint_write, 3),
                                          ENTRY(digest_file, 1),
                                          ENTRY(clock_seconds, 0),
                                          ENTRY(launcher_start, 6),
                                          ENTRY(launcher_code, 2),
                                          ENTRY(launcher_wait, 2),
                                          ENTRY(launcher_close_lifeline, 1),
                                          ENTRY(launcher_signal, 2),
                                          ENTRY(pmi_pmix_problem, 1),
                                          ENTRY(pmi_serve, 2),
                                          ENTRY(pmi_join, 1),
                                          ENTRY(pmi_leave, 0),
                                          ENTRY(pmi_environment, 1),
                                          ENTRY(pmi_test, 1),
                                          ENTRY(pmi_close, 1),
                                          ENTRY(pmi_abort, 2),
                                          ENTRY(pmi_free, 1),
                                          ENTRY(program_start, 4),
                                          ENTRY(program_event, 1),
                                          ENTRY(program_stop, 2),
                                          {NULL, NULL, 0}};

void attribute_visible R_init_sparkring(DllInfo *dll) {
  R_registerRoutines(dll, NULL, entries, NULL, NULL);
  R_useDynamicSymbols(dll, FALSE);
  R_forceSymbols(dll, TRUE);
  interrupt_init();
  shared_init(dll);
}
