# SPDX-License-Identifier: Apache-2.0
#
# Fails when the library exports anything but the functions of the headers, or lacks one of them.
execute_process(COMMAND ${NM} -D --defined-only ${LIBRARY} OUTPUT_VARIABLE listing
                COMMAND_ERROR_IS_FATAL ANY)
set(declarations "")
foreach(header sparkring sparkring_async sparkring_device sparkring_messages sparkring_pmi sparkring_reducer sparkring_tools)
  file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/../../core/${header}.h found REGEX "^RING_API ")
  list(APPEND declarations ${found})
endforeach()
string(REGEX MATCHALL "ring_[a-z_]+\\(" declared "${declarations}")
list(TRANSFORM declared REPLACE "\\(" "")
string(REGEX MATCHALL "[0-9a-f]+ [A-Z] [A-Za-z0-9_]+" lines "${listing}")
list(TRANSFORM lines REPLACE ".* " "" OUTPUT_VARIABLE exported)
list(FILTER exported EXCLUDE REGEX "^(_init|_fini|__.*|SPARKRING_.*)$") # the last: versions of symbols
list(SORT declared)
list(SORT exported)
list(LENGTH declared count)
if(count LESS 60 OR NOT declared STREQUAL exported)
  message(FATAL_ERROR "declared: ${declared}\nexported: ${exported}")
endif()
message("${count} functions exported")
