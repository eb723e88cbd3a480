# SPDX-License-Identifier: Apache-2.0
#
# Rows as record batches of Arrow: their SQL, and the files of a rank. test-sparklyr.R and
# tests/spark have batches of Spark.

kinds <- c(
  d = "d", i = "i", l = "l", c = "c", D = "D", t = "t", r = "r", ad = "[d", ai = "[i", ab = "[b",
  al = "[l", ac = "[c", aD = "[D", at = "[t"
)

# nolint start: object_usage_linter. Helpers.
# What is read from a file with these lines.
read_lines <- function(lines, kinds, read = batches_all) {
  file <- .Call(C_batch_file_open, batch_file(lines))
  on.exit(.Call(C_batch_file_close, file))
  read(file, kinds)
}
# nolint end

test_that("each kind of column comes back as sparklyr collects it", {
  rows <- read_lines(paste("0 -1", every_kind), kinds)
  expect_identical(names(rows), names(kinds))
  expect_identical(rows$d, c(1.5, NA, NaN))
  expect_false(is.nan(rows$d[[2]]))
  expect_identical(rows$i, c(3L, NA, -1L))
  expect_identical(rows$l, c(TRUE, NA, FALSE))
  expect_identical(rows$c, c("\u00e9", NA, ""))
  expect_identical(rows$D, structure(c(1, NA, -1), class = "Date"))
  expect_identical(rows$t, as.POSIXct(c(0.25, NA, 1e9), origin = "1970-01-01"))
  expect_identical(rows$r, list(as.raw(c(0, 255)), NA, raw()))
  expect_identical(rows$ad, list(c(1.5, NA), NA, double()))
  expect_identical(rows$ai, list(c(1L, NA), NA, integer()))
  expect_identical(rows$ab, list(as.raw(c(1, 255)), NA, raw()))
  expect_identical(rows$al, list(c(TRUE, NA), NA, logical()))
  expect_identical(rows$ac, list(list("a", NA_character_), NA, list()))
  expect_identical(rows$aD[-3], list(structure(c(1, NA), class = "Date"), NA))
  expect_identical(rows$at[-3], list(as.POSIXct(0.25, origin = "1970-01-01"), NA))
  expect_identical(lengths(rows[c("aD", "at")][[1]]), c(2L, 1L, 0L))
})

test_that("a rank takes its part of a batch, for each kind of column", {
  whole <- read_lines(paste("0 -1", every_kind), kinds)
  part <- read_lines(paste("1 3", every_kind), kinds)
  expect_identical(part, whole[2:3, ])
  parts <- read_lines(paste(c("0 1", "1 2", "2 9", "3 -1"), every_kind), kinds)
  expect_identical(parts, whole)
})

test_that("numbers and logicals are a matrix", {
  numbers <- kinds[c("d", "i", "l")]
  rows <- read_lines(paste(c("0 -1", "1 3"), every_kind), numbers, batches_matrix)
  whole <- cbind(d = c(1.5, NA, NaN), i = c(3, NA, -1), l = c(1, NA, 0))
  expect_identical(rows, whole[c(1:3, 2:3), ])
  expect_identical(dim(read_lines("", numbers, batches_matrix)), c(0L, 3L))
  types <- c(n = "DoubleType", name = "StringType")
  expect_error(batches_check_numbers(types, batches_kinds(types)),
               "column name is of Spark's type StringType, and a matrix has numbers")
})

test_that("a rank without rows has columns of the right types", {
  none <- read_lines(c("", ""), kinds)
  expect_identical(dim(none), c(0L, length(kinds)))
  expect_identical(lapply(none, class), lapply(read_lines(paste("0 -1", every_kind), kinds), class))
})

test_that("strings have no NUL, and offsets may be of 64 bits", {
  large <- paste0(
    "/////5gAAAAUAAAAAAAAAAwAFgAGAAUACAAMAAwAAAAAAwQAGAAAACgAAAAAAAAAAAAKABgADAAEAAgACgAAAEwA",
    "AAAQAAAAAgAAAAAAAAAAAAAAAwAAAAAAAAAAAAAAAQAAAAAAAAAIAAAAAAAAABgAAAAAAAAAIAAAAAAAAAADAAAA",
    "AAAAAAAAAAABAAAAAgAAAAAAAAABAAAAAAAAAAEAAAAAAAAAAAAAAAAAAAADAAAAAAAAAAMAAAAAAAAAYQBiAAAA",
    "AAA="
  )
  expect_identical(read_lines(paste("0 -1", large), c(c = "c"))$c, c("ab", NA))
})

test_that("numbers come back as they were, to the bit, from many batches", {
  set.seed(1)
  numbers <- c(rnorm(1000), exp(rnorm(1000, sd = 20)), .Machine$double.xmax, 2^-1022, 0.1, 1 / 3)
  lines <- vapply(split(numbers, seq_along(numbers) %/% 300), function(x) {
    batch_line(arrow_batch(x))
  }, "")
  expect_identical(read_lines(lines, c(x = "d"))$x, numbers)
})

test_that("lines may be broken as Spark does it, at any place of a piece of the file", {
  numbers <- sin(1:2e4)
  line <- batch_line(arrow_batch(numbers))
  at_edge <- function(place) paste0(substr(line, 1, place), "\r\n", substring(line, place + 1))
  broken <- c(gsub("(.{76})", "\\1\r\n", line), at_edge(65535), at_edge(65536), line)
  expect_identical(read_lines(broken, c(x = "d"))$x, rep(numbers, 4))
  expect_error(read_lines("0 -1 abcd\r", c(x = "d")), "cannot be read")
})

test_that("batches are read one after another, and again", {
  lines <- c("", batch_line(arrow_batch(1:2)), batch_line(arrow_batch(3)), "",
             batch_line(arrow_batch(4:9), 2, 4), batch_line(arrow_batch(4:9), 6))
  read_lines(lines, c(n = "d"), function(file, kinds) {
    read <- batches_tables(file, kinds)
    for (time in 1:2) {
      expect_identical(as.list(read()), list(n = c(1, 2)))
      expect_identical(read()$n, 3)
      expect_identical(read()$n, c(6, 7))
      expect_null(read())
      expect_null(read())
      expect_null(read(reset = TRUE))
    }
  })
})

test_that("a file that is not of Spark is an error, wherever it is cut", {
  expect_error(.Call(C_batch_file_open, tempfile()), "cannot be opened: No such file",
               class = "ring_error_system")
  expect_error(read_lines("0 -1 abc", kinds), "cannot be read: a line of their file")
  expect_error(read_lines(paste("0 -1", every_kind), c(kinds, more = "d")), "too few columns")
  bytes <- base64_bytes(every_kind)
  for (length in seq(8, length(bytes) - 8, by = 56)) {
    expect_error(read_lines(batch_line(bytes[seq_len(length)]), kinds), "cannot be read")
  }
})

test_that("no batch is read before it is asked for", {
  lines <- c(batch_line(arrow_batch(1)), batch_line(arrow_batch(2)), "0 -1 abc")
  read_lines(lines, c(n = "d"), function(file, kinds) {
    read <- batches_tables(file, kinds)
    expect_identical(read()$n, 1)
    expect_identical(read()$n, 2)
    expect_error(read(), "a line of their file is not of Spark")
  })
})

test_that("the name of a file is gone when it is open", {
  name <- batch_file("")
  file <- .Call(C_batch_file_open, name)
  expect_false(file.exists(name))
  expect_null(.Call(C_batch_file_read, file, 0, "d", raw()))
  .Call(C_batch_file_close, file)
})

test_that("a task writes its lines to a file that only its user can read", {
  command <- strsplit(batches_command(), " ", fixed = TRUE)[[1]]
  expect_identical(command[1:2], c("sh", "-c"))
  expect_length(command, 3)
  folder <- tempfile("a folder")
  dir.create(folder)
  run <- function(folder) {
    script <- tempfile()
    writeLines(command[[3]], script)
    system2("sh", script, stdout = TRUE, stderr = FALSE, input = c("one", "two"),
            env = paste0("SPARK_EXECUTOR_DIRS=", shQuote(folder)))
  }
  name <- run(paste0(folder, ":/nowhere"))
  expect_identical(dirname(name), folder)
  expect_identical(readLines(name), c("one", "two"))
  expect_identical(format(file.info(name)$mode), "600")
  unlink(folder, recursive = TRUE)
  name <- suppressWarnings(run("/nowhere/at/all"))
  expect_identical(dirname(name), "/tmp")
  unlink(name)
  expect_match(batches_command("/big/disk,/other"), "{LOCAL_DIRS:-/big/disk,/other}", fixed = TRUE)
  expect_identical(batches_command("/a b"), batches_command())
  expect_identical(batches_command("$(id)"), batches_command())
})

test_that("a task removes the file of rows if the rank has not opened it", {
  for (column in list(identity, as.list)) { # sparklyr makes either
    name <- batch_file("")
    rows <- list(value = column(name))
    expect_error(task_closure(rows, list(), stop("no barrier")), "no barrier")
    expect_false(file.exists(name))
  }
})

test_that("a column of a type that R has no vector for is named", {
  types <- c(id = "LongType", size = "ByteType", image = "MapType(StringType,LongType,true)")
  expect_error(
    batches_kinds(types), "column image is of Spark's type MapType.*select other columns",
    class = "ring_error_invalid"
  )
  fine <- c(
    a = "ArrayType(DoubleType,true)", b = "ArrayType(IntegerType,false)", c = "DecimalType(10,3)",
    d = "ArrayType(DecimalType(10,3),true)", e = "ArrayType(ByteType,true)", f = "NullType",
    g = "ArrayType(StringType,true)", h = "VarcharType(3)",
    i = "org.apache.spark.ml.linalg.VectorUDT@3bfc3ba7"
  )
  kinds <- c("[d", "[i", "d", "[d", "[b", "c", "[c", "c", "[d")
  expect_identical(unname(batches_kinds(fine)), kinds)
  nested <- c(a = "ArrayType(ArrayType(StringType,true),true)")
  expect_error(batches_kinds(nested), class = "ring_error_invalid")
  expect_error(batches_kinds(c(a = "ArrayType(BinaryType,true)")), class = "ring_error_invalid")
  vectors <- "ArrayType(org.apache.spark.ml.linalg.VectorUDT@3bfc3ba7,true)"
  expect_error(batches_kinds(c(a = vectors)), class = "ring_error_invalid")
  expect_error(batches_kinds(character()), "`.x` has no columns", class = "ring_error_invalid")
})

test_that("names of columns are quoted, and columns are cast", {
  expect_identical(batches_select_sql(c("a`b c" = "i")), "cast(`a``b c` AS int) AS c1")
  sql <- batches_select_sql(c(x = "d", y = "[b"))
  expect_identical(sql, c("cast(`x` AS double) AS c1", "cast(`y` AS array<int>) AS c2"))
})

test_that("each partition has a key", {
  expect_identical(batches_keys("1 1 0 1 2", 3L), c(2L, 0L, 4L))
})

test_that("rows are dealt out in their order, as many to each rank", {
  # R's value of SQL.
  value <- function(sql, scope) {
    for (pair in list(c(" div ", " %/% "), c("cast(", "("), c(" AS int", ""), c("if(", "ifelse("),
                      c("r = r1", "r == r1"), c("(id & 8589934591L)", "(id %% 2^33)"))) {
      sql <- gsub(pair[[1]], pair[[2]], sql, fixed = TRUE)
    }
    sql <- gsub("([0-9])L\\b", "\\1", sql)
    functions <- list(least = min, greatest = max, array = c, element_at = `[[`,
                      shiftright = function(x, bits) x %/% 2^bits)
    eval(parse(text = sql), c(functions, scope))
  }
  # The ranks of all rows, where partitions have these counts, and other ones were counted.
  ranks <- function(counts, size, most, counted = counts) {
    sql <- batches_deal_sql(size, counted, most)
    taken <- list()
    for (part in seq_along(counts)) for (batch in seq_len(ceiling(counts[[part]] / most)) - 1) {
      count <- min(most, counts[[part]] - batch * most)
      scope <- list(id = (part - 1) * 2^33 + batch)
      scope$place <- value(sql$place, scope)
      scope$rows <- value(sql$rows, scope)
      scope[c("r0", "r1")] <- list(value(sql$first, scope), value(sql$last, scope))
      for (r in scope$r0:scope$r1) {
        upto <- value(sql$upto, c(scope, r = r))
        rows <- seq_len(count) - 1
        rows <- rows[rows >= value(sql$skip, c(scope, r = r)) & (upto < 0 | rows < upto)]
        taken[[length(taken) + 1]] <- data.frame(
          row = sum(counts[seq_len(part - 1)]) + batch * most + rows, rank = rep(r, length(rows))
        )
      }
    }
    taken <- do.call(rbind, taken)
    expect_identical(taken$row, seq_len(sum(counts)) - 1) # each once, in their order
    expect_false(is.unsorted(taken$rank))
    taken$rank
  }
  expect_equal(ranks(c(3, 0, 4), 2L, 10), c(0, 0, 0, 0, 1, 1, 1))
  expect_equal(ranks(c(3, 0, 4), 7L, 10), 0:6)
  expect_equal(ranks(c(3, 0, 4), 7L, 2), 0:6)
  expect_equal(ranks(c(1, 1), 4L, 10), c(0, 2))
  for (most in c(1, 7, 1000)) {
    dealt <- as.vector(table(ranks(c(100, 1, 50, 2), 5L, most)))
    expect_identical(dealt, c(31L, 31L, 30L, 31L, 30L))
  }
  ranks(c(30, 10, 5), 3L, 7, counted = c(10, 30)) # another plan than was counted
  ranks(c(3, 2), 4L, 2, counted = c(30, 30))
  expect_identical(batches_counts(c(2, 0), c(5, 7)), c(7, 0, 5))
  expect_identical(batches_counts(numeric(), numeric()), numeric())
})
