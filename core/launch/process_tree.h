/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes below this one: its children, their children, and orphans that it adopts. Only Linux lets a process
 * adopt orphans, lists children, and sends a signal when a parent ends. Elsewhere the functions do nothing.
 */
#ifndef RING_LAUNCH_PROCESS_TREE_H
#define RING_LAUNCH_PROCESS_TREE_H

#include <stddef.h>
#include <sys/types.h>

/* Adopts orphans of descendants from now on. */
void ring_process_tree_adopt(void);

/* Lets the kernel send a signal to this process when the thread that has forked it ends. 0: no signal. */
void ring_process_tree_watch_parent(int number);

/* The present children of this process; 0 ends the list, which the caller frees. NULL: none, or no memory. */
pid_t *ring_process_tree_children(void);

/* Sends SIGKILL to the present children of this process, and does not wait for them. */
void ring_process_tree_kill_children(void);

/* Kills and reaps all children of this process, and the orphans that it adopts by that, except the children of the
 * list `spared`, which may be NULL. */
void ring_process_tree_kill(const pid_t *spared);

#endif
