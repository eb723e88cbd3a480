# SPDX-License-Identifier: Apache-2.0
#
# Warnings and messages of the function of a run. A rank collects their texts, and the driver raises
# each text once, after all ranks have succeeded. After a failure the log of the rank has them.

conditions_most <- 50L # texts of a rank, as many as R keeps warnings
conditions_length <- 1000L # characters of a text

# Evaluates `code`, a promise, on a rank. `keep` gets a data frame of the texts. Without Spark the
# caller shows the output of the ranks as it comes, so messages are left to it, and warnings are not
# printed twice.
conditions_collect <- function(code, local, keep) {
  found <- data.frame(kind = character(), text = character(), stringsAsFactors = FALSE)
  add <- function(kind, condition) {
    text <- substr(conditionMessage(condition), 1L, conditions_length)
    if (nrow(found) >= conditions_most || any(found$kind == kind & found$text == text)) return()
    found[nrow(found) + 1L, ] <<- list(kind, text)
  }
  value <- withCallingHandlers(
    code,
    warning = function(condition) {
      add("warning", condition)
      if (local) tryInvokeRestart("muffleWarning")
    },
    message = function(condition) {
      if (!local && !inherits(condition, "packageStartupMessage")) add("message", condition)
    }
  )
  keep(found)
  value
}

# Raises the warnings and messages of all ranks on the driver. A text that not all ranks have begins
# with the ranks that have it.
conditions_raise <- function(rank_results) {
  parts <- lapply(rank_results, function(rank_result) {
    found <- rank_result$conditions
    if (NROW(found) > 0L) cbind(found, rank = rank_result$rank)
  })
  found <- do.call(rbind, parts)
  if (is.null(found)) return(invisible())
  for (key in unique(paste(found$kind, found$text))) {
    same <- found[paste(found$kind, found$text) == key, ]
    text <- same$text[[1L]]
    if (nrow(same) < length(rank_results)) text <- paste0(conditions_ranks(same$rank), ": ", text)
    if (same$kind[[1L]] == "warning") warning(text, call. = FALSE)
    else message(text, appendLF = !endsWith(text, "\n"))
  }
}

conditions_ranks <- function(ranks) {
  if (length(ranks) == 1L) return(paste("rank", ranks))
  paste0("ranks ", toString(utils::head(ranks, 8L)), if (length(ranks) > 8L) ", ...")
}
