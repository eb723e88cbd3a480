# SPDX-License-Identifier: Apache-2.0
#
# A directory that only this user can read. R removes it with R's own temporary directory, but not
# when R is killed. So a shell waits for the end of this process, and removes the directory then.
# Python's _launch/temporary_folder.py does the same.

# Returns the path, with the connection to the shell.
folder_create <- function() {
  path <- tempfile("sparkring")
  dir.create(path, mode = "0700")
  remove <- paste("rm -rf", shQuote(path))
  # Without a line the pipe ends with this process. Killed children of it may still write.
  wait <- paste0("trap '' INT HUP; read -r line || ", remove, " || { sleep 1; ", remove, "; }")
  structure(path, shell = pipe(wait, "w"))
}

folder_remove <- function(folder) {
  unlink(folder, recursive = TRUE)
  shell <- attr(folder, "shell")
  cat("\n", file = shell)
  close(shell)
}
