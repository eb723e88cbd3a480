# SPDX-License-Identifier: Apache-2.0
#
# Tables of ranks that stay in Spark (ring_apply(collect = FALSE)). A rank writes its data frame as
# texts in JSON, each with the columns of some rows as arrays. Spark reads the arrays, and makes
# rows of them, without R.
#
# Two checkpoints in the executors keep what Spark would compute again. The first keeps the results
# of the barrier stage, so that `.f` runs once. The second is behind a shuffle, because Spark runs
# every stage on top of a barrier stage as a barrier stage, too, without head() and union().
# Python's spark/_stage.py does the same.

kept_rows <- 10000L # rows of a text
kept_unknown <- "unknown" # the type of a list column without vectors

# ---- On a rank -----------------------------------------------------------------------------------

# The part of a rank's result that stays in Spark: the type of each column, and the texts.
kept_pack <- function(value) {
  if (!is.data.frame(value)) {
    stop("`.f` returned ", describe(value), ", and with `collect = FALSE` it must return a data ",
         "frame", call. = FALSE)
  }
  value <- as.data.frame(value)
  value <- value[names(value) != "rank"]
  if (length(value) == 0L) stop("`.f` returned a data frame without columns", call. = FALSE)
  types <- vapply(names(value), function(name) kept_type(value[[name]], name), "")
  starts <- if (nrow(value) > 0L) seq.int(1L, nrow(value), kept_rows) else integer()
  fields <- kept_fields(names(value))
  texts <- vapply(starts, function(start) {
    rows <- seq.int(start, min(nrow(value), start + kept_rows - 1L))
    columns <- vapply(seq_along(value), function(i) {
      sprintf("\"%s\":%s", fields[[i]], kept_json(value[[i]][rows], types[[i]]))
    }, "")
    enc2utf8(paste0("{", paste(columns, collapse = ","), "}"))
  }, "")
  list(types = types, texts = texts)
}

# The names of columns in JSON and SQL: in hexadecimal digits, which need no quotes.
kept_fields <- function(names) {
  vapply(names, function(name) {
    paste0("c", paste(charToRaw(enc2utf8(name)), collapse = ""))
  }, "", USE.NAMES = FALSE)
}

# The type of a column in Spark.
kept_type <- function(x, name) {
  if (inherits(x, "Date")) return("date")
  if (inherits(x, "POSIXct")) return("timestamp")
  if (is.list(x)) return(kept_list_type(x, name))
  type <- kept_simple_type(x)
  if (is.na(type)) kept_refuse(x, name) else type
}

kept_simple_type <- function(x) {
  if (is.factor(x)) return("string")
  if (is.object(x)) return(NA_character_)
  types <- c(double = "double", integer = "int", logical = "boolean", character = "string")
  unname(types[typeof(x)])
}

# All vectors of a list column have one type, besides those that are NA. Without others, other ranks
# may know the type.
kept_list_type <- function(x, name) {
  known <- x[!vapply(x, kept_is_null, NA)]
  if (length(known) == 0L) return(kept_unknown)
  if (all(vapply(known, is.raw, NA))) return("binary")
  types <- unique(vapply(known, kept_simple_type, ""))
  if (setequal(types, c("int", "double"))) types <- "double"
  if (length(types) != 1L || is.na(types)) kept_refuse(x, name)
  sprintf("array<%s>", types)
}

kept_is_null <- function(x) is.null(x) || (is.logical(x) && length(x) == 1L && is.na(x))

kept_refuse <- function(x, name) {
  stop("column ", name, " is a ", class(x)[[1L]], " that no column of Spark takes: return ",
       "numbers, strings, logicals, dates, times, or a list of vectors of one type", call. = FALSE)
}

# The values of a column as an array of JSON.
kept_json <- function(x, type) {
  texts <- if (is.list(x)) vapply(x, kept_list_json, "", type) else kept_texts(x)
  paste0("[", paste(texts, collapse = ","), "]")
}

kept_list_json <- function(x, type) {
  if (kept_is_null(x)) return("null")
  if (type == "binary") return(paste0("\"", paste(x, collapse = ""), "\""))
  kept_json(x, type)
}

# Dates are days, and times are microseconds.
kept_texts <- function(x) {
  texts <- if (inherits(x, "POSIXct")) {
    sprintf("%.0f", as.double(x) * 1e6)
  } else if (inherits(x, "Date")) {
    sprintf("%.0f", floor(as.double(x)))
  } else if (is.factor(x) || is.character(x)) {
    kept_strings(as.character(x))
  } else if (is.logical(x)) {
    ifelse(x, "true", "false")
  } else if (is.integer(x)) {
    as.character(x)
  } else {
    kept_numbers(x)
  }
  texts[is.na(x) & !(is.double(x) & is.nan(x) & !is.object(x))] <- "null"
  texts
}

# Seventeen digits are each double exactly. JSON has no NaN, which Spark reads as a string.
kept_numbers <- function(x) {
  texts <- sprintf("%.17g", x)
  odd <- is.nan(x) | is.infinite(x)
  texts[odd] <- ifelse(is.nan(x[odd]), "\"NaN\"",
                       ifelse(x[odd] > 0, "\"Infinity\"", "\"-Infinity\""))
  texts
}

kept_strings <- function(x) {
  x <- gsub("\\", "\\\\", enc2utf8(x), fixed = TRUE)
  x <- gsub("\"", "\\\"", x, fixed = TRUE)
  for (i in grep("[\001-\037]", x)) x[[i]] <- kept_escape(x[[i]])
  paste0("\"", x, "\"")
}

kept_escape <- function(text) {
  codes <- utf8ToInt(text)
  parts <- ifelse(codes < 32L, sprintf("\\u%04x", codes), intToUtf8(codes, multiple = TRUE))
  paste(parts, collapse = "")
}

# ---- On the driver ------------------------------------------------------------------------------

# The types of the columns of the table, by name. The ranks must return the same columns, in any
# order.
kept_agree <- function(rank_results, columns = NULL) {
  types <- lapply(rank_results, function(rank_result) rank_result$table$types)
  names <- if (is.null(columns)) names(types[[1L]]) else setdiff(columns_names(columns), "rank")
  for (rank in seq_along(types) - 1L) {
    own <- names(types[[rank + 1L]])
    odd <- c(setdiff(names, own), if (is.null(columns)) setdiff(own, names))
    if (length(odd) > 0L) columns_refuse(rank, columns, odd[[1L]])
  }
  agreed <- vapply(names, kept_common_type, "", types)
  kept_check_spark_types(agreed, columns)
  agreed
}

# The type of a column on all ranks.
kept_common_type <- function(name, types) {
  found <- vapply(types, function(own) own[[name]], "")
  known <- which(found != kept_unknown)
  if (length(known) == 0L) return("array<double>")
  first <- known[[1L]]
  odd <- known[found[known] != found[[first]]]
  if (length(odd) == 0L) return(found[[first]])
  check_stop("rank ", odd[[1L]] - 1L, " returned column ", name, " as ", found[[odd[[1L]]]],
             ", and rank ", first - 1L, " as ", found[[first]], ": convert it in `.f`", call = NULL)
}

# The check of `columns` with types.
kept_check_spark_types <- function(types, columns) {
  spark <- c(double = "double", numeric = "double", integer = "int", character = "string",
             logical = "boolean", date = "date", timestamp = "timestamp", factor = "string")
  for (name in setdiff(names(columns), "rank")) {
    type <- columns[[name]]
    fits <- if (type == "list") grepl("^array|binary", types[[name]]) else
      types[[name]] == spark[[type]]
    if (!fits) columns_refuse_type(types[[name]], name, type)
  }
}

# The SQL that makes rows of the texts in `view`, which has the columns rank, piece and text.
kept_sql <- function(view, agreed, keys) {
  fields <- kept_fields(names(agreed))
  json <- toString(sprintf("%s array<%s>", fields, kept_json_types(agreed)))
  columns <- paste(kept_from_json(paste0("r.", fields), agreed), "AS", batches_name(names(agreed)))
  paste0(
    "SELECT ", toString(c("rank", columns)),
    " FROM (SELECT rank, explode(arrays_zip(", toString(paste0("t.", fields)), ")) AS r",
    " FROM (SELECT rank, from_json(text, '", json, "', map('mode', 'FAILFAST')) AS t",
    " FROM (SELECT * FROM (SELECT /*+ REPARTITION(", length(keys), ", k) */ * FROM (",
    "SELECT element_at(", batches_array(keys), ", 1 + rank) AS k, rank, piece, text FROM ", view,
    ")) SORT BY rank, piece)))"
  )
}

kept_json_types <- function(types) {
  types <- sub("date", "int", types, fixed = TRUE)
  types <- sub("timestamp", "bigint", types, fixed = TRUE)
  sub("binary", "string", types, fixed = TRUE)
}

kept_from_json <- function(names, types) {
  made <- c(
    date = "date_from_unix_date(%s)", timestamp = "timestamp_micros(%s)", binary = "unhex(%s)"
  )[types]
  made[is.na(made)] <- "%s"
  vapply(seq_along(names), function(i) sprintf(made[[i]], names[[i]]), "")
}
