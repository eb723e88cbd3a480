/* SPDX-License-Identifier: Apache-2.0
 *
 * Descriptors that other processes wait on: sockets, and locks that end with their descriptor. The
 * system lets them go when the last process that has one closes it or ends; so a forked child gives
 * up its copies at once, and what its parent does shows. Each of its copies becomes a socket that is
 * connected to nothing, so that nothing else takes the number before the child frees what had it.
 */
#ifndef RING_FD_REGISTRY_H
#define RING_FD_REGISTRY_H

/* Before the call that makes such a descriptor, which may not block: forks wait. */
void ring_fd_begin(void);

/* After it, with what it returned; returns that. Less than 0: there is none. */
int ring_fd_end(int fd);

/* Closes any descriptor. */
void ring_fd_close(int fd);

#endif
