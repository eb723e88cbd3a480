/* SPDX-License-Identifier: Apache-2.0
 *
 * The registry of descriptors that other processes wait on: sockets, and locks that end with their
 * descriptor. The system closes a connection when the last process that holds it closes it or ends. A
 * forked child would keep it open, so the child releases its copies at once: each copy becomes a socket
 * that is connected to nothing, which keeps its number taken until the child frees its owner.
 */
#ifndef RING_BASE_FD_REGISTRY_H
#define RING_BASE_FD_REGISTRY_H

/* Before the call that makes such a descriptor. The call must not block: forks wait for it. */
void ring_fd_begin(void);

/* Between the two: registers one more descriptor that the call has made. */
void ring_fd_add(int fd);

/* After that call: registers the descriptor that it returned, unless that is negative. Returns it. */
int ring_fd_end(int fd);

/* Closes any descriptor. */
void ring_fd_close(int fd);

#endif
