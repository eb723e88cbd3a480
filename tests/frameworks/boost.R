# SPDX-License-Identifier: Apache-2.0
#
# One of the workers that train XGBoost's trees, as talk.R trains its network: it reads and writes
# the same. The training is test_xgboost.py's.

task <- eval(parse(file("stdin")))
size <- length(task$barrier$address)
digits <- reticulate::import_from_path("digits", task$folder, convert = FALSE)
xgboost <- reticulate::import("xgboost", convert = FALSE)
collective <- reticulate::import("xgboost.collective", convert = FALSE)
numpy <- reticulate::import("numpy", convert = FALSE)
data <- digits$load(task$barrier$partition, size)

config <- sparkring::ring_xgboost_config(task$barrier, token = task$token)
context <- do.call(collective$CommunicatorContext, config)
context$`__enter__`()
parameters <- list(objective = "multi:softmax", num_class = 10L, max_depth = 3L, nthread = 1L)
booster <- xgboost$train(parameters, xgboost$DMatrix(data$x, data$y), 25L)
replicas <- collective$get_world_size()
Sys.sleep(2 * task$barrier$partition) # rank 0 ends its session only after the other has finalized
context$`__exit__`(NULL, NULL, NULL)

guess <- booster$predict(xgboost$DMatrix(data$test_x))
model <- numpy$frombuffer(booster$save_raw(), "uint8")
cat(reticulate::py_to_r(digits$judge(data, replicas, guess, list(model))), "\n")
