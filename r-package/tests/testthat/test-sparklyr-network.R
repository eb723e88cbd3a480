# SPDX-License-Identifier: Apache-2.0
#
# Networks of PyTorch on Spark tables, by PySpark on the Spark of sparklyr. Python needs sparkring
# and torch.

network_source <- c(
  "import torch",
  "class Line(torch.nn.Module):",
  "    def __init__(self, params):",
  "        super().__init__()",
  "        self.layer = torch.nn.Linear(params['inputs'], 1)",
  "    def forward(self, *inputs):",
  "        return self.layer(torch.stack(inputs, 1))[:, 0]",
  "def make(params): return Line(params)",
  "def loss(params): return torch.nn.MSELoss()",
  "def adam(params, parameters): return torch.optim.Adam(parameters, lr=params['rate'])"
)

# nolint start: object_usage_linter. testthat provides these functions.
expect_network <- function(sc) {
  nets <- file.path(tempfile("nets"), "sparkring_test_nets.py")
  dir.create(dirname(nets))
  writeLines(network_source, nets)
  cars <- sparklyr::sdf_copy_to(sc, mtcars, "cars", repartition = 3, overwrite = TRUE)
  train <- function(...) {
    ml_ring_torch(
      cars, mpg ~ wt + qsec, "sparkring_test_nets:make", "sparkring_test_nets:loss",
      "sparkring_test_nets:adam", ..., py_files = nets, num_proc = 2, batch_size = 32, verbose = 0
    )
  }
  network <- train(epochs = 200, model_params = list(inputs = 2, rate = 0.1))
  expect_identical(nrow(network$history), 200L)
  expect_lt(network$best$loss, 0.1 * network$history$loss[[1L]])
  expect_identical(generics::glance(network)$epoch, network$best$epoch)
  expect_output(print(network), "A network of PyTorch, after 200 epochs")
  predicted <- sparklyr::ml_predict(network, cars)
  expect_s3_class(predicted, "tbl_spark")
  predicted <- as.data.frame(sparklyr::sdf_collect(predicted))
  error <- mean((predicted$prediction - predicted$mpg)^2)
  expect_lt(error, 1.5 * network$best$loss)
  path <- tempfile("network")
  sparklyr::ml_save(network, path)
  expect_error(sparklyr::ml_save(network, path), "already exists")
  loaded <- ml_ring_load(sc, path, "torch")
  again <- as.data.frame(sparklyr::sdf_collect(sparklyr::ml_predict(loaded, cars)))
  expect_identical(again$prediction, predicted$prediction)
  expect_error(train(epoch = 3), "has no Param 'epoch'", class = "ring_error_invalid")
  expect_error(train(model_params = list(inputs = 3, rate = 0.1)),
               "rank [01] .*shapes cannot be multiplied")
}
# nolint end

test_that("ml_ring_torch() trains on Spark tables, and PySpark follows a new connection", {
  skip_if_not_installed("reticulate")
  skip_if_not(reticulate::py_module_available("torch"), "Python has no torch")
  local(expect_network(spark_connection("local[3]"))) # ends before the next
  sc <- spark_connection("local-cluster[2,2,1024]")
  expect_network(sc)
  expect_equal(ring_pyspark(sc)$range(7L)$count(), 7)
})
