/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests: collectives that run while the caller does something else. sparkring.h includes this file.
 */
#ifndef SPARKRING_ASYNC_H
#define SPARKRING_ASYNC_H

#ifndef SPARKRING_H
#error "include sparkring.h, which includes this file"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A started collective. The requests of a communicator run one at a time, in the order of their starts,
 * which is the same on every rank; blocking calls are part of that order. A request's timeout counts
 * from the moment it begins to run. When one fails the communicator is broken, and the requests after
 * it complete with the same status.
 *
 * test, wait, error and free may be called from any thread, beside calls on the communicator, too; a
 * request serves one thread at a time. The log hook is called in test, in wait and in blocking calls. */
typedef struct ring_request ring_request;

/* Sets *done to 1 when the request is done, else to 0, without waiting. Returns the status of the
 * collective when it is done, RING_OK before. */
RING_API ring_status ring_request_test(ring_request *request, int *done);

/* Waits until the request is done and returns the status of the collective. When the interrupt hook ends
 * the wait, the communicator is broken and every outstanding request completes with RING_ABORTED. May be
 * called again. Returns RING_BUSY, with the request not done, in a hook while this thread runs a request. */
RING_API ring_status ring_request_wait(ring_request *request);

/* Why the collective failed; status RING_OK when it did not, or is not done. Valid until
 * ring_request_free, after ring_comm_free, too. */
RING_API const ring_error *ring_request_error(const ring_request *request);

/* Frees the request, after ring_request_wait where it is not done: its buffers are no longer used. To
 * free it sooner, abort the communicator first. In a forked child this releases memory only. Not from a
 * hook; NULL is allowed. */
RING_API void ring_request_free(ring_request *request);

/* `ring_<collective>_start` takes and checks the arguments of `ring_<collective>` and returns while the
 * work goes on; *request is NULL unless it returns RING_OK. Counts and lists of buffers are copied.
 * Buffers stay until the request is done, inputs unchanged and outputs untouched. ring_send and ring_recv
 * have no start, because a request runs in the order of all requests: sparkring_messages.h starts sends and
 * receives.
 *
 * On a host with fewer than two processors a rank nothing is gained by work beside the caller's. There the
 * start of a call of 64 KiB or more waits for the other ranks, for at most 2 ms, and runs the call once all
 * have started it. */
RING_API ring_status ring_allreduce_start(ring_comm *comm, const void *input, void *output,
                                          size_t count, ring_dtype dtype, ring_op op,
                                          ring_request **request);
RING_API ring_status ring_allreduce_group_start(ring_comm *comm, const ring_buffer *buffers,
                                                size_t buffer_count, ring_dtype dtype, ring_op op,
                                                ring_request **request);
RING_API ring_status ring_reduce_start(ring_comm *comm, const void *input, void *output,
                                       size_t count, ring_dtype dtype, ring_op op, int root,
                                       ring_request **request);
RING_API ring_status ring_reduce_scatter_start(ring_comm *comm, const void *input, void *output,
                                               size_t count, ring_dtype dtype, ring_op op,
                                               ring_request **request);
RING_API ring_status ring_reduce_scatterv_start(ring_comm *comm, const void *input, void *output,
                                                const size_t *counts, ring_dtype dtype, ring_op op,
                                                ring_request **request);
RING_API ring_status ring_scan_start(ring_comm *comm, const void *input, void *output, size_t count,
                                     ring_dtype dtype, ring_op op, ring_request **request);
RING_API ring_status ring_exscan_start(ring_comm *comm, const void *input, void *output,
                                       size_t count, ring_dtype dtype, ring_op op,
                                       ring_request **request);
RING_API ring_status ring_broadcast_start(ring_comm *comm, const void *input, void *output,
                                          size_t count, ring_dtype dtype, int root,
                                          ring_request **request);
RING_API ring_status ring_allgather_start(ring_comm *comm, const void *input, void *output,
                                          size_t count, ring_dtype dtype, ring_request **request);
RING_API ring_status ring_allgatherv_start(ring_comm *comm, const void *input, void *output,
                                           const size_t *counts, ring_dtype dtype,
                                           ring_request **request);
RING_API ring_status ring_gather_start(ring_comm *comm, const void *input, void *output,
                                       size_t count, ring_dtype dtype, int root,
                                       ring_request **request);
RING_API ring_status ring_gatherv_start(ring_comm *comm, const void *input, void *output,
                                        const size_t *counts, ring_dtype dtype, int root,
                                        ring_request **request);
RING_API ring_status ring_scatter_start(ring_comm *comm, const void *input, void *output,
                                        size_t count, ring_dtype dtype, int root,
                                        ring_request **request);
RING_API ring_status ring_scatterv_start(ring_comm *comm, const void *input, void *output,
                                         const size_t *counts, ring_dtype dtype, int root,
                                         ring_request **request);
RING_API ring_status ring_alltoall_start(ring_comm *comm, const void *input, void *output,
                                         size_t count, ring_dtype dtype, ring_request **request);
RING_API ring_status ring_alltoallv_start(ring_comm *comm, const void *input, const size_t *sends,
                                          void *output, const size_t *receives, ring_dtype dtype,
                                          ring_request **request);
RING_API ring_status ring_barrier_start(ring_comm *comm, ring_request **request);

#ifdef __cplusplus
}
#endif

#endif
