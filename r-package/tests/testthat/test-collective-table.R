# SPDX-License-Identifier: Apache-2.0

# What table() gives for the vectors of all ranks together.
test_that("ring_table counts what all ranks pass", {
  results <- run_ring(3, {
    species <- list(c("b", "a"), c("c", "c", "b"), character())[[rank + 1]]
    number <- list(c(10, 2, NA), c(1, 10), c(2, 0.5))[[rank + 1]]
    flag <- list(c(TRUE, NA), TRUE, FALSE)[[rank + 1]]
    day <- .Date(list(3:4, 1L, double())[[rank + 1]])
    list(
      species = ring_table(comm, species), number = ring_table(comm, number),
      any = ring_table(comm, number, useNA = "ifany"),
      always = ring_table(comm, flag, useNA = "always"),
      flag = ring_table(comm, flag), day = ring_table(comm, day),
      computed = ring_table(comm, number > 1), named = ring_table(comm, large = number > 1),
      title = ring_table(comm, number, dnn = "size"),
      without = ring_table(comm, number, exclude = 10),
      untitled = ring_table(comm, species, deparse.level = 0)
    )
  })
  species <- c("b", "a", "c", "c", "b")
  number <- c(10, 2, NA, 1, 10, 2, 0.5)
  flag <- c(TRUE, NA, TRUE, FALSE)
  day <- .Date(c(3, 4, 1))
  for (result in results) {
    expect_identical(result$species, table(species))
    expect_identical(result$number, table(number))
    expect_identical(result$any, table(number, useNA = "ifany"))
    expect_identical(result$always, table(flag, useNA = "always"))
    expect_identical(result$flag, table(flag))
    expect_identical(result$day, table(day))
    expect_identical(result$computed, table(number > 1))
    expect_identical(result$named, table(large = number > 1))
    expect_identical(result$title, table(number, dnn = "size"))
    expect_identical(result$without, table(number, exclude = 10))
    expect_identical(result$untitled, table(species, deparse.level = 0))
  }
})

test_that("ring_table keeps the levels of factors, those of rank 0 first", {
  results <- run_ring(3, {
    levels <- list(c("low", "high"), c("mid", "low"), c("none", "high"))[[rank + 1]]
    level <- factor(levels[c(1, 1, 2)], levels)
    kept <- addNA(factor(c("x", NA)[[rank %% 2 + 1]], "x"))
    list(
      level = ring_table(comm, level), kept = ring_table(comm, kept),
      rows = ring_table(comm, level[rank == 1], dnn = "level")
    )
  })
  levels <- c("low", "high", "mid", "none")
  for (result in results) {
    all <- factor(rep(levels, c(3, 2, 2, 2)), levels)
    expect_identical(result$level, table(level = all))
    expect_identical(result$rows, table(level = factor(c("mid", "mid", "low"), levels)))
    expect_identical(result$kept, table(kept = addNA(factor(c("x", NA, "x")))))
  }
})

test_that("ring_table crosses several variables", {
  results <- run_ring(2, {
    own <- mtcars[seq_len(nrow(mtcars)) %% 2 == rank, ]
    cylinders <- own$cyl
    gears <- factor(own$gear, sort(unique(own$gear)))
    list(
      two = ring_table(comm, cylinders, gears),
      three = ring_table(comm, own[c("cyl", "gear", "am")]),
      gone = ring_table(comm, a = ifelse(cylinders == 4, NA, cylinders), b = gears,
                        useNA = "ifany"),
      empty = ring_table(comm, character())
    )
  })
  cylinders <- mtcars$cyl
  gears <- factor(mtcars$gear)
  for (result in results) {
    # Levels of a factor come as rank 0 has them, and here they are sorted on both.
    expect_identical(unclass(result$two)[, levels(gears)], unclass(table(cylinders, gears)))
    expect_identical(result$three, table(mtcars[c("cyl", "gear", "am")]))
    gone <- table(a = ifelse(cylinders == 4, NA, cylinders), b = gears, useNA = "ifany")
    expect_identical(unclass(result$gone)[, levels(gears)], unclass(gone))
    expect_identical(dim(result$empty), 0L)
    expect_s3_class(result$empty, "table")
  }
  expect_identical(results[[1]], results[[2]])
})

test_that("ring_table fails on every rank, and the communicator goes on", {
  results <- run_ring(2, {
    text <- function(code) tryCatch(code, error = conditionMessage)
    odd <- rank == 1
    list(
      lengths = text(ring_table(comm, 1:2, if (odd) 1:3 else 1:2)),
      kinds = text(ring_table(comm, 1, if (odd) factor("a") else "a")),
      number = text(do.call(ring_table, c(list(comm, a = 1), if (odd) list(b = 2)))),
      times = text(ring_table(comm, if (odd) Sys.time() else "a")),
      nothing = text(ring_table(comm)), list = text(ring_table(comm, if (odd) sum else 1)),
      units = text(ring_table(comm, as.difftime(1, units = c("mins", "secs")[[rank + 1]]))),
      after = ring_table(comm, rank)
    )
  })
  for (result in results) {
    expect_match(result$lengths, "all arguments must have the same length")
    expect_match(result$kinds, "ranks differ: rank 1 passed a factor as variable 2, rank 0 strings")
    expect_match(
      result$number, "rank 1 passed 2 variables \\(\"a\", \"b\"\\), rank 0 1 variables \\(\"a\"\\)"
    )
    expect_match(result$times, "a variable is of class POSIXct: pass it through format\\(\\)")
    expect_match(result$nothing, "nothing to tabulate")
    expect_match(result$list, "a variable must be a vector or a factor, not a function")
    expect_match(result$units, "difftime in secs as variable 1, rank 0 difftime in mins")
    expect_identical(result$after, table(rank = 0:1))
  }
  expect_match(results[[1]]$lengths, "^rank 1 \\(127.0.0.1\\) failed: all arguments")
})

test_that("a world of one counts as table() does", {
  comm <- local_world()
  letters_of <- c("b", "a", NA, "b")
  expect_identical(ring_table(comm, letters_of), table(letters_of))
  expect_identical(ring_table(comm = comm, c = letters_of), table(c = letters_of))
  expect_error(ring_table(comm, c = letters_of), "`c`.* was taken for `comm`: name the")
  always <- table(letters_of, useNA = "always")
  expect_identical(ring_table(comm, letters_of, useNA = "always"), always)
  strange <- c("NA", NA, "", " ", "\u00fc")
  expect_identical(ring_table(comm, strange, exclude = NULL), table(strange, exclude = NULL))
})
