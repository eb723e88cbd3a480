# SPDX-License-Identifier: Apache-2.0
#
# The settings that frameworks get. tests/frameworks has the frameworks.

# Calls a function on every rank: its result, and the variables that it sets.
configure <- function(size, name, arguments = rep(list(list()), size)) {
  # nolint start: object_usage_linter. A helper, and what it gives to this code.
  run_ring(size, {
    result <- do.call(name, c(list(comm), arguments[[rank + 1]]))
    list(result = result, variables = as.list(Sys.getenv()))
  }, name = name, arguments = arguments)
  # nolint end
}

test_that("tf_config of workers", {
  outcome <- configure(3, "ring_tf_config")
  workers <- outcome[[1]]$result$cluster$worker
  expect_match(workers, "^127\\.0\\.0\\.1:[0-9]+$")
  expect_identical(anyDuplicated(workers), 0L)
  for (rank in 0:2) {
    expect_identical(outcome[[rank + 1]]$result, list(
      cluster = list(worker = workers), task = list(type = "worker", index = rank)
    ))
    json <- sprintf(
      '{"cluster": {"worker": ["%s"]}, "task": {"type": "worker", "index": %d}}',
      paste(workers, collapse = '", "'), rank
    )
    expect_identical(outcome[[rank + 1]]$variables$TF_CONFIG, json)
  }
})

test_that("tf_config with roles", {
  names <- c("ps", "worker", "evaluator", "chief", "worker")
  outcome <- configure(5, "ring_tf_config", lapply(names, function(name) list(role = name)))
  cluster <- outcome[[1]]$result$cluster
  expect_identical(lengths(cluster), c(ps = 1L, worker = 2L, chief = 1L))
  for (rank in 0:4) {
    index <- if (rank == 4) 1L else 0L
    expect_identical(outcome[[rank + 1]]$result, list(
      cluster = cluster, task = list(type = names[[rank + 1]], index = index)
    ))
  }
})

test_that("roles that cannot be", {
  results <- run_ring(3, {
    lapply(roles, function(names) {
      tryCatch(
        ring_tf_config(comm, names[[rank + 1]]), ring_error_invalid = conditionMessage
      )
    })
  }, roles = list(
    c("chief", "worker", "chief"), c("evaluator", "evaluator", "worker"), c("ps", "ps", "evaluator")
  ))
  for (texts in results) {
    expect_match(texts[[1]], "^ranks 0 and 2 are both chief: only one can be")
    expect_match(texts[[2]], "^ranks 0 and 1 are both evaluator")
    expect_match(texts[[3]], "^no rank is chief or worker")
  }
})

test_that("an error of one rank is an error on all", {
  errors <- run_ring(3, {
    role <- if (rank == 1) "boss" else "worker"
    error <- tryCatch(ring_tf_config(comm, role), ring_error_invalid = identity)
    ring_barrier(comm)
    error
  })
  own <- "`role` must be one of chief, worker, ps, evaluator, not \"boss\""
  text <- paste("rank 1 (127.0.0.1) failed:", own)
  expect_identical(vapply(errors, conditionMessage, ""), c(text, own, text))
  expect_identical(errors[[1]]$rank, 1L)
  expect_identical(errors[[3]]$call, quote(ring_tf_config(comm, role)))
})

test_that("torch_env", {
  outcome <- configure(2, "ring_torch_env")
  for (rank in 0:1) {
    result <- outcome[[rank + 1]]$result
    expect_identical(result[-2], list(
      MASTER_ADDR = "127.0.0.1", RANK = as.character(rank), WORLD_SIZE = "2",
      LOCAL_RANK = as.character(rank), LOCAL_WORLD_SIZE = "2", GROUP_RANK = "0",
      GROUP_WORLD_SIZE = "1", TORCHELASTIC_RUN_ID = "sparkring",
      TORCHELASTIC_USE_AGENT_STORE = "False"
    ))
    expect_identical(result$MASTER_PORT, outcome[[1]]$result$MASTER_PORT)
    expect_identical(outcome[[rank + 1]]$variables[names(result)], result)
  }
})

test_that("torch_env distinguishes hosts", {
  groups <- run_ranks(4, {
    comm <- open(addresses = c("127.0.0.1", "localhost", "127.0.0.1", "localhost"))
    variables <- ring_torch_env(comm)
    ring_close(comm)
    c(variables$LOCAL_RANK, variables$GROUP_RANK)
  })
  expect_identical(groups, list(c("0", "0"), c("0", "1"), c("1", "0"), c("1", "1")))
})

test_that("the interface to an address is that of its most specific route", {
  skip_if(.Platform$endian == "big", "the table is that of a little-endian machine")
  routes <- c(
    "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT",
    "ens3 00000000 0100A8C0 0003 0 0 0 00000000 0 0 0", # the default
    "eth0 00004D0A 00000000 0001 0 0 0 0000FFFF 0 0 0", # 10.77.0.0/16
    "eth1 00024D0A 00000000 0001 0 0 0 00FFFFFF 0 0 0", # 10.77.2.0/24
    "eth2 00024D0A 00000000 0001 0 0 100 00FFFFFF 0 0 0",
    "* 07024D0A 00000000 0205 0 0 0 FFFFFFFF 0 0 0", # refused
    "eth3 08024D0A 00000000 0000 0 0 0 FFFFFFFF 0 0 0" # down
  )
  to <- function(address) sparkring:::interface_route(address, routes)
  expect_identical(to("10.77.1.9"), "eth0")
  expect_identical(to("10.77.2.9"), "eth1")
  expect_identical(to("10.77.2.7"), "eth1")
  expect_identical(to("10.77.2.8"), "eth1")
  expect_identical(to("10.78.0.1"), "ens3")
  expect_null(to("127.0.0.1"))
  expect_null(sparkring:::interface_route("10.77.1.9", routes[1]))
})

test_that("jax_config", {
  outcome <- configure(2, "ring_jax_config")
  address <- outcome[[1]]$result$coordinator_address
  expect_match(address, "^127\\.0\\.0\\.1:[0-9]+$")
  for (rank in 0:1) {
    expect_identical(outcome[[rank + 1]]$result, list(
      coordinator_address = address, num_processes = 2L, process_id = rank
    ))
  }
})

test_that("ray_config", {
  outcome <- configure(2, "ring_ray_config")
  address <- outcome[[1]]$result$address
  expect_match(address, "^127\\.0\\.0\\.1:[0-9]+$")
  port <- sub(".*:", "", address)
  expect_identical(outcome[[1]]$result$start, c(
    "ray", "start", "--block", "--head", paste0("--port=", port), "--include-dashboard=false",
    "--disable-usage-stats"
  ))
  expect_identical(outcome[[2]]$result$start, c(
    "ray", "start", "--block", paste0("--address=", address), "--disable-usage-stats"
  ))
  token <- outcome[[1]]$variables$RAY_AUTH_TOKEN
  expect_match(token, "^[0-9a-f]{64}$")
  for (rank in 0:1) {
    names <- c("RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN")
    expect_identical(unname(outcome[[rank + 1]]$variables[names]), list(address, "token", token))
  }
})

test_that("lightgbm_config", {
  outcome <- configure(2, "ring_lightgbm_config")
  machines <- outcome[[1]]$result$machines
  ports <- as.integer(sub(".*:", "", strsplit(machines, ",")[[1]]))
  expect_identical(machines, paste0("127.0.0.1:", ports, collapse = ","))
  for (rank in 0:1) {
    expect_identical(outcome[[rank + 1]]$result, list(
      machines = machines, local_listen_port = ports[[rank + 1]], num_machines = 2L
    ))
  }
})

test_that("of a barrier a communicator is made for the moment", {
  results <- run_ranks(2, {
    barrier <- list(address = rep("127.0.0.1:40001", size), partition = rank)
    config <- ring_tf_config(barrier, token = token, timeout = 30)
    own <- as.integer(sub(".*:", "", config$cluster$worker[[rank + 1]]))
    is_held <- function() {
      comm <- ring_init(rank = 0, addresses = "127.0.0.1", ports = c(own, own))
      on.exit(ring_close(comm))
      inherits(try(ring_port_reserve(comm), silent = TRUE), "try-error")
    }
    gc()
    held <- is_held()
    world <- ring_torch_env(barrier, token = token, timeout = 30)$WORLD_SIZE
    gc()
    list(held, world, is_held())
  }, token = fresh_token())
  expect_identical(results, rep(list(list(TRUE, "2", FALSE)), 2))
})

test_that("what is neither a communicator nor a barrier", {
  expect_error(
    ring_tf_config("worker"), "`comm` must be a communicator.*or the `barrier`",
    class = "ring_error_invalid"
  )
  comm <- local_world()
  error <- expect_error(
    ring_torch_env(comm, token = "secret"), "`comm` is an open communicator: leave them out",
    class = "ring_error_invalid"
  )
  expect_no_match(deparse(error$call), "secret")
})

test_that("without XGBoost all ranks get an error at once, and the communicator goes on", {
  skip_if_not_installed("reticulate")
  python <- Sys.which("python3")
  import <- c("-c", shQuote("import xgboost"))
  skip_if(!nzchar(python), "there is no Python")
  skip_if(system2(python, import, stdout = FALSE, stderr = FALSE) == 0, "XGBoost is installed")
  errors <- run_ring(2, {
    Sys.setenv(RETICULATE_PYTHON = python)
    error <- tryCatch(ring_xgboost_config(comm), ring_error = identity)
    ring_barrier(comm)
    error
  }, python = python)
  text <- paste0("XGBoost's tracker runs in Python on rank 0, and .*python.* cannot import it ",
                 "\\(.*No module named.*\\): install xgboost in a Python, .*RETICULATE_PYTHON")
  expect_s3_class(errors[[1]], "ring_error_unsupported")
  expect_match(conditionMessage(errors[[1]]), paste0("^", text))
  expect_match(conditionMessage(errors[[2]]), paste0("^rank 0 \\(127.0.0.1\\) failed: ", text))
  expect_identical(errors[[1]]$call, quote(ring_xgboost_config(comm)))
})
