/* SPDX-License-Identifier: Apache-2.0
 *
 * A file that gets its name when it is whole and on the disk. R's connections do not report a full disk, and
 * cannot wait for the disk.
 */
#ifndef RING_BINDINGS_DURABLE_FILE_H
#define RING_BINDINGS_DURABLE_FILE_H

#include <sys/uio.h>

/* Writes the parts to the file new-<name>, syncs it, renames it to <name> and syncs the directory, which has to
 * exist. Returns 0 or an errno, and leaves no file behind that is not whole. */
int ring_durable_file_write(const char *folder, const char *name, const struct iovec *parts,
                            int count);

#endif
