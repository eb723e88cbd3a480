# SPDX-License-Identifier: Apache-2.0
#
# Whether Spark asks for encryption, by the command lines of a worker's ancestors, in a directory
# that looks like /proc. tests/spark has the command lines of a real Spark.

add_process <- function(proc, process, parent, command) {
  folder <- file.path(proc, process)
  dir.create(folder, showWarnings = FALSE)
  stat <- file.path(folder, "stat")
  cat(process, " (a) b (", process, ") S ", parent, " 0 0", sep = "", file = stat)
  words <- strsplit(command, " ", fixed = TRUE)[[1L]]
  bytes <- unlist(lapply(words, function(word) c(charToRaw(word), as.raw(0L))))
  writeBin(if (is.null(bytes)) raw() else bytes, file.path(folder, "cmdline"))
}

# A worker (12) of a Java process (10).
new_proc <- function(command) {
  proc <- tempfile("proc")
  dir.create(proc)
  add_process(proc, 12, 11, "R --no-echo")
  add_process(proc, 11, 10, "sh -c Rscript")
  add_process(proc, 10, 1, command)
  add_process(proc, 1, 0, "init -Dspark.network.crypto.enabled=true")
  proc
}

executor <- "org.apache.spark.executor.CoarseGrainedExecutorBackend --cores 2"

test_that("what asks for encryption", {
  asks <- function(...) sparkring:::spark_encrypts(12L, new_proc(paste(...)))
  expect_true(asks("java -cp x -Dspark.network.crypto.enabled=true", executor))
  expect_true(asks("java -Dspark.authenticate.enableSaslEncryption=TRUE", executor))
  expect_true(asks(
    "java -Dspark.network.crypto.enabled=false -Dspark.ssl.rpc.enabled=true", executor
  ))
  expect_true(asks(
    "java org.apache.spark.deploy.SparkSubmit --conf spark.network.crypto.enabled=true"
  ))
  expect_false(asks("java", executor))
  expect_false(asks("java -Dspark.network.crypto.enabled=false", executor))
  expect_false(asks("java -Dspark.network.crypto.enabled=", executor))
  expect_false(asks("java -Dspark.network.crypto.enabledx=true", executor))
  expect_false(asks(
    "java -Dspark.io.encryption.enabled=true -Dspark.ssl.ui.enabled=true", executor
  ))
  expect_false(asks("java -Dspark.network.crypto.enabled=true com.example.Other"))
  expect_false(asks(""))
})

test_that("what cannot be read asks for nothing", {
  proc <- new_proc("java")
  expect_false(sparkring:::spark_encrypts(99L, proc))
  expect_false(sparkring:::spark_encrypts(1L, "/nowhere"))
  add_process(proc, 12, 12, "its own parent")
  expect_false(sparkring:::spark_encrypts(12L, proc))
  for (stat in c("", "12 (a) S", "12 (a) S x 0")) {
    cat(stat, file = file.path(proc, 12, "stat"))
    expect_false(sparkring:::spark_encrypts(12L, proc))
  }
  expect_false(sparkring:::spark_encrypts())
})

test_that("ranks need a token then", {
  check <- sparkring:::spark_check_token
  expect_error(
    check(NULL, 0, NULL, c("a", "b")), "Spark encrypts its traffic here, .*token",
    class = "ring_error_invalid"
  )
  expect_error(check(NULL, 0, 2, NULL), class = "ring_error_invalid")
  expect_null(check("sixteen letters.", 0, 2, NULL))
  expect_null(check(NULL, 0, 1, NULL))
  expect_null(check(NULL, NULL, NULL, NULL))
})
