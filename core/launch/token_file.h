/* SPDX-License-Identifier: Apache-2.0
 *
 * The token of a job, drawn here, in a file that only this user can open and that ends with this process.
 */
#ifndef RING_LAUNCH_TOKEN_FILE_H
#define RING_LAUNCH_TOKEN_FILE_H

#include <stdbool.h>

typedef struct ring_token_file {
  int descriptor;
  char path
      [256]; /* for SPARKRING_TOKEN_FILE: ranks open it, any number of times, while this process runs */
} ring_token_file;

/* Draws a token, and writes its 64 hexadecimal digits. False, with errno: there is no file. */
bool ring_token_file_open(ring_token_file *file);

/* Removes a file that has a name. */
void ring_token_file_close(ring_token_file *file);

#endif
