/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes below this one: its children, their children, and orphans that it adopts.
 */
#ifndef SPARKRING_PROCESS_TREE_H
#define SPARKRING_PROCESS_TREE_H

#include <stdbool.h>
#include <stddef.h>

/* Adopts orphans of descendants from now on, on Linux. */
void process_tree_adopt(bool adopts);

/* Sends SIGKILL to the present children of this process; returns their number. */
int process_tree_kill_children(void);

/* Kills all children of this process, and the orphans that it adopts by that. */
void process_tree_kill(void);

/* Describes into `text` how a process has failed, by its wait status. Returns `text`. */
const char *process_tree_describe(int status, char *text, size_t capacity);

#endif
