# SPDX-License-Identifier: Apache-2.0
#
# Fuzzers of everything that reads bytes from outside (libFuzzer, so clang only):
#   cmake -S . -B build/fuzz -G Ninja -DCMAKE_C_COMPILER=clang -DSPARKRING_FUZZ=ON
# tests/fuzz/world.c replaces sockets, the clock and random numbers. CMakeLists.txt includes this file: paths begin at
# the root.
set(fuzz_flags -g1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
set(fuzz_wraps poll ring_platform_now ring_secret_random ring_handshake_advance
               ring_resolver_ask ring_socket_listen ring_socket_port ring_socket_accept
               ring_socket_connect ring_socket_failure ring_socket_peer_host)
list(TRANSFORM fuzz_wraps PREPEND -Wl,--wrap=)
add_library(sparkring_fuzzed STATIC ${core_sources} tests/fuzz/world.c)
target_include_directories(sparkring_fuzzed PUBLIC core tests/fuzz)
target_link_libraries(sparkring_fuzzed PUBLIC sparkring_flags OpenSSL::SSL OpenSSL::Crypto
                      Threads::Threads m)
# What no fuzzer can guess is not asked for.
target_compile_definitions(sparkring_fuzzed PRIVATE FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION)
target_compile_options(sparkring_fuzzed PUBLIC ${fuzz_flags} -fsanitize=fuzzer-no-link
                       PRIVATE -U_FORTIFY_SOURCE)
file(GLOB fuzz_sources CONFIGURE_DEPENDS tests/fuzz/fuzz_*.c)
foreach(fuzz_source ${fuzz_sources})
  get_filename_component(fuzz_name ${fuzz_source} NAME_WE)
  add_executable(${fuzz_name} ${fuzz_source})
  target_link_libraries(${fuzz_name} PRIVATE sparkring_fuzzed)
  target_link_options(${fuzz_name} PRIVATE ${fuzz_flags} -fsanitize=fuzzer ${fuzz_wraps})
  list(APPEND fuzzers ${fuzz_name})
endforeach()
# Collectives among hostile ranks, and the messages of a device's hub.
set(fuzz_forgeries ring_allgather ring_allgatherv ring_alltoall ring_alltoallv ring_allreduce
              ring_allreduce_group ring_reduce_scatter ring_broadcast ring_recv ring_send ring_alloc)
list(TRANSFORM fuzz_forgeries PREPEND -Wl,--wrap=)
foreach(fuzz_name fuzz_gathered fuzz_reducer fuzz_device)
  target_sources(${fuzz_name} PRIVATE tests/fuzz/forgeries.c)
  target_link_options(${fuzz_name} PRIVATE ${fuzz_forgeries})
endforeach()
set(fuzz_hub_forgeries ring_hub_move ring_hub_receive ring_hub_post ring_hub_send ring_hub_send_all)
list(TRANSFORM fuzz_hub_forgeries PREPEND -Wl,--wrap=)
target_link_options(fuzz_device PRIVATE ${fuzz_hub_forgeries})
target_link_options(fuzz_split PRIVATE -Wl,--wrap=ring_fusion_run_here)
# What R reads is read in an R.
execute_process(COMMAND R RHOME OUTPUT_VARIABLE fuzz_r_home OUTPUT_STRIP_TRAILING_WHITESPACE)
execute_process(COMMAND R CMD config --cppflags OUTPUT_VARIABLE fuzz_r_include
                OUTPUT_STRIP_TRAILING_WHITESPACE)
string(REGEX REPLACE "^-I" "" fuzz_r_include "${fuzz_r_include}")
find_library(FUZZ_R_LIBRARY R HINTS "${fuzz_r_home}/lib")
if(NOT FUZZ_R_LIBRARY)
  message(FATAL_ERROR "fuzz_record_batch needs an R with libR.so (--enable-R-shlib)")
endif()
target_sources(fuzz_record_batch PRIVATE r-package/src/record_batch.c)
target_include_directories(fuzz_record_batch PRIVATE r-package/src)
target_include_directories(fuzz_record_batch SYSTEM PRIVATE ${fuzz_r_include})
target_compile_definitions(fuzz_record_batch PRIVATE R_NO_REMAP FUZZ_R_HOME="${fuzz_r_home}")
target_link_libraries(fuzz_record_batch PRIVATE ${FUZZ_R_LIBRARY})
file(GLOB seed_sources CONFIGURE_DEPENDS tests/fuzz/seeds*.c)
add_executable(fuzz_seeds ${seed_sources})
target_link_libraries(fuzz_seeds PRIVATE sparkring_fuzzed)
target_link_options(fuzz_seeds PRIVATE ${fuzz_flags})
add_custom_target(fuzzers DEPENDS ${fuzzers} fuzz_seeds)
