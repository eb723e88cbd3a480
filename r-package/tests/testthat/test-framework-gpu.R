# SPDX-License-Identifier: Apache-2.0
#
# Which GPUs a rank sees. There are none here: only the variable is looked at.

# The world of one in a process of its own, as the variables stay set: the value of the code.
alone <- function(visible, code, ...) {
  # nolint start: object_usage_linter. A helper, and what it gives to this code.
  eval(bquote(run_ring(1, {
    if (is.na(visible)) Sys.unsetenv("CUDA_VISIBLE_DEVICES") else
      Sys.setenv(CUDA_VISIBLE_DEVICES = visible)
    Sys.unsetenv("CUDA_DEVICE_ORDER")
    .(substitute(code))
  }, visible = visible, ...)))[[1]]
  # nolint end
}

# What each rank gets, and has in the variable.
share <- function(visible, counts) {
  # nolint start: object_usage_linter. A helper, and what it gives to this code.
  run_ranks(length(visible), {
    Sys.setenv(CUDA_VISIBLE_DEVICES = visible[[rank + 1]])
    comm <- open()
    names <- tryCatch(ring_gpus(comm, counts[[rank + 1]]), ring_error = identity)
    ring_close(comm)
    list(names, Sys.getenv("CUDA_VISIBLE_DEVICES"))
  }, visible = visible, counts = counts)
  # nolint end
}

test_that("ranks share what they see", {
  cases <- list(
    list(rep("4,5,6", 3), list(1, 1, 1), c("4", "5", "6")),
    list(rep("4,5,6,7", 3), list(1, 2, 1), c("4", "5,6", "7")),
    list(rep("4,5", 3), list(1, NULL, 1), c("4", "4,5", "5")),
    list(rep("4,5", 3), list(1, 0, 1), c("4", "", "5")),
    list(c("4,5", "6", "4,5"), list(1, 1, 1), c("4", "6", "5"))
  )
  for (case in cases) {
    expected <- lapply(case[[3]], function(names) list(strsplit(names, ",")[[1]], names))
    expect_identical(share(case[[1]], case[[2]]), expected)
  }
})

test_that("more ranks than GPUs are an error on all", {
  results <- share(c("4,5", "4,5", "6"), list(1, 2, 1))
  texts <- vapply(results, function(one) conditionMessage(one[[1]]), "")
  text <- "on 127.0.0.1 ranks ask for 3 GPUs, but see 2 (4,5): start fewer ranks there"
  expect_true(all(startsWith(texts, c(text, text, paste("rank 0 (127.0.0.1) failed:", text)))))
  expect_identical(results[[3]][[1]]$rank, 0L)
  expect_match(conditionMessage(share("", list(1))[[1]][[1]]), "sees no GPU on .* is \"\"$")
})

test_that("addresses are indexes into what is visible", {
  results <- alone("4,5,6,7", {
    names <- list(
      ring_gpus(comm, addresses = c(1, 3)), ring_gpus(comm, addresses = "0"),
      ring_gpus(comm, count = 1, addresses = c("GPU-1f", "2"))
    )
    c(names, Sys.getenv("CUDA_DEVICE_ORDER"))
  })
  expect_identical(results, list(c("5", "7"), "4", "GPU-1f", ""))
  results <- alone(NA, {
    names <- ring_gpus(comm, addresses = 2:3)
    c(names, Sys.getenv(c("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"), names = FALSE))
  })
  expect_identical(results, c("2", "3", "2,3", "PCI_BUS_ID"))
})

test_that("an address without a place, too few, and what is none", {
  text <- alone("4,5", {
    arguments <- list(list(addresses = 2), list(count = 2, addresses = 1), list(addresses = -1),
                      list(count = -1))
    lapply(arguments, function(one) {
      tryCatch(do.call(ring_gpus, c(list(comm), one)), ring_error_invalid = conditionMessage)
    })
  })
  expect_match(text[[1]], "has the GPU 2, but CUDA_VISIBLE_DEVICES is \"4,5\": of the 2 GPUs there")
  expect_match(text[[2]], "`count` is 2, but `addresses` has 1: pass at least as many")
  expect_match(text[[3]], "`addresses` must be whole numbers from 0, or UUIDs, not -1")
  expect_match(text[[4]], "`count` is -1: it must be 0 or more")
})

test_that("the devices of an initialized CUDA do not change", {
  text <- alone("4,5", {
    file <- file(file.path(tempdir(), "nvidia-uvm"), "w")
    text <- tryCatch(ring_gpus(comm, 1), ring_error_invalid = conditionMessage)
    close(file)
    list(text, ring_gpus(comm, 1))
  })
  expect_match(text[[1]], "CUDA was initialized in this process while .* was \"4,5\", so it will")
  expect_identical(text[[2]], "4")
})
