# SPDX-License-Identifier: Apache-2.0
#
# One of three workers that train the convolutional network of the 2020 talk, as a closure of
# spark_apply(barrier = TRUE) does: `barrier` is all that it knows of the others. The one line with
# ring_tf_config() or ring_torch_env() stands where the talk wrote TF_CONFIG by hand. Reads an R
# expression with barrier, token and framework from stdin, writes JSON.
#
# reticulate is asked to convert nothing: an older one cannot read arrays of NumPy 2.

task <- eval(parse(file("stdin")))
barrier <- task$barrier
digits <- reticulate::import_from_path("digits", task$folder, convert = FALSE)
data <- digits$load(barrier$partition, length(barrier$address))
batch_size <- 64L # of each worker
epochs <- 20L
rate <- 0.1

with_tensorflow <- function() {
  sparkring::ring_tf_config(barrier, token = task$token)
  tf <- reticulate::import("tensorflow", convert = FALSE)
  keras <- reticulate::import("tf_keras", convert = FALSE)
  images <- function(x) tf$image$resize(tf$reshape(x, c(-1L, 8L, 8L, 1L)), c(28L, 28L))
  strategy <- tf$distribute$MultiWorkerMirroredStrategy()
  options <- tf$data$Options()
  options$experimental_distribute$auto_shard_policy <- tf$data$experimental$AutoShardPolicy$OFF
  own <- tf$data$Dataset$from_tensor_slices(reticulate::tuple(images(data$x), data$y))
  own <- own$batch(batch_size, drop_remainder = TRUE)$with_options(options)
  keras$utils$set_random_seed(1L)
  scope <- strategy$scope()
  scope$`__enter__`()
  model <- keras$Sequential(list(
    keras$layers$Conv2D(32L, 3L, activation = "relu", input_shape = c(28L, 28L, 1L)),
    keras$layers$MaxPooling2D(),
    keras$layers$Flatten(),
    keras$layers$Dense(64L, activation = "relu"),
    keras$layers$Dense(10L)
  ))
  model$compile(
    loss = keras$losses$SparseCategoricalCrossentropy(from_logits = TRUE),
    optimizer = keras$optimizers$legacy$SGD(rate)
  )
  scope$`__exit__`(NULL, NULL, NULL)
  model$fit(own, epochs = epochs, verbose = 0L)
  list(
    replicas = strategy$num_replicas_in_sync,
    guess = tf$argmax(model$call(images(data$test_x)), 1L)$numpy(),
    weights = model$get_weights()
  )
}

with_torch <- function() {
  sparkring::ring_torch_env(barrier, token = task$token)
  torch <- reticulate::import("torch", convert = FALSE)
  on_gpu <- reticulate::py_to_r(torch$cuda$is_available())
  stopifnot(on_gpu || Sys.getenv("ACCELERATE_USE_CPU") == "true")
  distributed <- reticulate::import("torch.distributed", convert = FALSE)
  nn <- torch$nn
  images <- function(x) {
    x <- torch$from_numpy(x)$reshape(-1L, 1L, 8L, 8L)
    nn$functional$interpolate(x, size = c(28L, 28L), mode = "bilinear")
  }
  distributed$init_process_group("gloo")
  torch$manual_seed(1L)
  model <- nn$parallel$DistributedDataParallel(nn$Sequential(
    nn$Conv2d(1L, 32L, 3L), nn$ReLU(), nn$MaxPool2d(2L), nn$Flatten(),
    nn$Linear(32L * 13L * 13L, 64L), nn$ReLU(), nn$Linear(64L, 10L)
  ))
  optimizer <- torch$optim$SGD(model$parameters(), lr = rate)
  x <- images(data$x)$split(batch_size)
  y <- torch$from_numpy(data$y)$split(batch_size)
  whole <- reticulate::py_len(x) - 1L
  for (batch in rep(seq_len(whole) - 1L, epochs)) {
    optimizer$zero_grad()
    guess <- model$forward(x$`__getitem__`(batch))
    nn$functional$cross_entropy(guess, y$`__getitem__`(batch))$backward()
    optimizer$step()
  }
  seen <- list(
    replicas = distributed$get_world_size(),
    guess = model$forward(images(data$test_x))$argmax(1L)$numpy(),
    weights = lapply(reticulate::iterate(model$parameters()), function(w) w$detach()$numpy())
  )
  distributed$destroy_process_group()
  seen
}

seen <- switch(task$framework, tensorflow = with_tensorflow(), torch = with_torch())
cat(reticulate::py_to_r(digits$judge(data, seen$replicas, seen$guess, seen$weights)), "\n")
