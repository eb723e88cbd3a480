# SPDX-License-Identifier: Apache-2.0
#
# Whether Spark's configuration requires encrypted traffic. Spark passes no settings to an R worker,
# but the command line of an ancestor process has them. Executors (standalone, YARN, Kubernetes)
# have -Dspark.network...=..., and a local driver has --conf. So the command lines of the ancestors
# are read in /proc, up to the first that runs a class of Spark. Python's _spark_encryption.py does
# the same.

# spark.io.encryption.enabled concerns files on disk, and the other spark.ssl.* web pages.
spark_encryption_settings <- paste0(
  "^(-D)?(spark\\.network\\.crypto\\.enabled|spark\\.ssl\\.rpc\\.enabled|",
  "spark\\.authenticate\\.enableSaslEncryption)=[Tt][Rr][Uu][Ee]$"
)
spark_ancestors_most <- 16L

# Whether a rank encrypts by default. The caller has not passed `encryption`.
spark_encrypts_by_default <- function() {
  is.na(Sys.getenv("SPARKRING_ENCRYPTION", NA)) && spark_encrypts()
}

# Whether Spark started this process and encrypts its traffic; FALSE where there is no /proc.
spark_encrypts <- function(process = Sys.getpid(), proc = "/proc") {
  for (generation in seq_len(spark_ancestors_most)) {
    arguments <- spark_command(process, proc)
    if (any(grepl("^org\\.apache\\.spark\\.", arguments, useBytes = TRUE))) {
      return(any(grepl(spark_encryption_settings, arguments, useBytes = TRUE)))
    }
    process <- spark_parent(process, proc)
    if (process <= 0L) break
  }
  FALSE
}

spark_command <- function(process, proc) {
  bytes <- spark_read(process, "cmdline", proc)
  bytes[bytes == as.raw(0L)] <- as.raw(1L) # which no argument of Spark's has
  strsplit(rawToChar(bytes), "\001", fixed = TRUE, useBytes = TRUE)[[1L]]
}

# The parent of a process, or 0. The state and the parent follow the name, which may hold anything.
spark_parent <- function(process, proc) {
  stat <- rawToChar(spark_read(process, "stat", proc))
  parent <- sub("^.*\\) [^ ]+ ([0-9]+) .*$", "\\1", stat, useBytes = TRUE)
  if (grepl("^[0-9]+$", parent)) as.integer(parent) else 0L
}

spark_read <- function(process, name, proc) {
  path <- file.path(proc, process, name)
  if (!file.exists(path)) return(raw())
  tryCatch(readBin(path, "raw", 2^22), error = function(error) raw(), warning = function(w) raw())
}

# Refuses ranks without a token, if links are encrypted by default.
spark_check_token <- function(token, rank, size, addresses) {
  if (!is.null(token) || is.null(rank) || max(size, length(addresses)) < 2) return()
  check_stop(
    "Spark encrypts its traffic here, so links are encrypted, which needs a token: pass the same ",
    "`token` of at least 16 random bytes on all ranks, or pass encryption = FALSE"
  )
}
