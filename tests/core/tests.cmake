# SPDX-License-Identifier: Apache-2.0
#
# The tests of the core and of the numerics, with SPARKRING_TESTS. CMakeLists.txt includes this file: paths begin at the root.
if(NOT BUILD_SHARED_LIBS)
  message(FATAL_ERROR "The tests need the shared library: leave out BUILD_SHARED_LIBS=OFF.")
endif()

# What the tests share; each links what it uses of it.
enable_testing()
file(GLOB test_helpers CONFIGURE_DEPENDS tests/core/support/*.c)
add_library(sparkring_test_helpers STATIC ${test_helpers})
target_include_directories(sparkring_test_helpers PUBLIC tests/core/support)
target_link_libraries(sparkring_test_helpers PUBLIC sparkring_inside)
file(GLOB numerics_sources CONFIGURE_DEPENDS numerics/*.c)
list(FILTER numerics_sources EXCLUDE REGEX "/numerics.c$")
add_library(sparkring_numerics STATIC ${numerics_sources})
target_include_directories(sparkring_numerics PUBLIC numerics)
target_compile_options(sparkring_numerics PRIVATE -ffp-contract=off)
target_link_libraries(sparkring_numerics PUBLIC sparkring_flags m)
file(GLOB test_sources CONFIGURE_DEPENDS tests/core/*/test_*.c tests/numerics/test_*.c)
find_program(OPEN_MPI_COMPILER mpicc.openmpi)
if(NOT PMIX_FOUND OR NOT OPEN_MPI_COMPILER)
  list(FILTER test_sources EXCLUDE REGEX "/test_pmix.c$")
endif()
# The headers of CUDA, NCCL and NVRTC, where they are: the core has declarations of its own, which tests compare. NVRTC is
# also where scripts/setup puts it.
find_path(CUDA_INCLUDE cuda.h HINTS ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES include)
file(GLOB nvrtc_wheels ${CMAKE_SOURCE_DIR}/.venv/nvrtc/nvidia/cu*)
find_path(NVRTC_INCLUDE nvrtc.h HINTS ENV CUDA_HOME PATHS ${nvrtc_wheels} ${CUDA_INCLUDE}/.. PATH_SUFFIXES include)
find_library(NVRTC NAMES nvrtc libnvrtc.so.13 libnvrtc.so.12 HINTS ENV CUDA_HOME PATHS ${nvrtc_wheels} ${CUDA_INCLUDE}/..
             PATH_SUFFIXES lib64 lib)
find_path(NCCL_INCLUDE nccl.h HINTS ENV NCCL_HOME PATHS ${CUDA_INCLUDE} PATH_SUFFIXES include)
if(NOT CUDA_INCLUDE)
  list(FILTER test_sources EXCLUDE REGEX "/test_(cuda|nccl)_header.c$")
elseif(NOT NCCL_INCLUDE)
  list(FILTER test_sources EXCLUDE REGEX "/test_nccl_header.c$")
endif()
if(NOT NVRTC_INCLUDE)
  list(FILTER test_sources EXCLUDE REGEX "/test_nvrtc_header.c$")
endif()
# Launchers of MPI: Debian's, and those that scripts/setup installs. Without scripts/setup there is no test_mpi.
find_program(MPI_OPEN_MPI mpirun.openmpi)
find_program(MPI_MPICH mpiexec.mpich)
set(MPI_STANDARD ${CMAKE_SOURCE_DIR}/.venv/mpi)
set(MPI_OPEN_MPI_5 ${CMAKE_SOURCE_DIR}/.venv/openmpi)
if(NOT EXISTS ${MPI_STANDARD} AND NOT EXISTS ${MPI_OPEN_MPI_5})
  list(FILTER test_sources EXCLUDE REGEX "/test_mpi.c$")
endif()
set(without_addresses "^test_(kernel|scale)$|_wakeups$")
set(without "${without_addresses}")
if(SPARKRING_SANITIZE STREQUAL "thread")
  set(without "_(allocator|backing|dump|exit|fusion|kernel|link|pmix|shm_collective|wakeups)$")
endif()
foreach(test_source ${test_sources})
  get_filename_component(test_name ${test_source} NAME_WE)
  add_executable(${test_name} ${test_source})
  target_link_libraries(${test_name} PRIVATE sparkring_test_helpers sparkring_inside sparkring_numerics)
  # Sanitizers make the very system calls that test_kernel takes away, and do not know the contexts of the tests of
  # wake-ups; test_scale counts bytes. That of threads also needs memory for itself, and processes that end all their
  # threads; learns nothing where each rank has one, nor where requests take more collectives from one thread to another
  # (test_request and test_group show that); and does not know what PMIx does.
  file(STRINGS ${test_source} several
       REGEX "pthread_|_start\\(|ring_reducer_|ring_messages_|ring_device_|ring_pmi_|ring_comm_abort|ring_resolve")
  if(SPARKRING_SANITIZE AND test_name MATCHES "${without}"
     OR SPARKRING_SANITIZE STREQUAL "thread" AND NOT several)
    set_target_properties(${test_name} PROPERTIES EXCLUDE_FROM_ALL TRUE)
    continue()
  endif()
  add_test(NAME ${test_name} COMMAND ${test_name})
  set_tests_properties(${test_name} PROPERTIES TIMEOUT 600)
endforeach()
# Runs tests once more, in another environment. To sanitizers an algorithm, a device or a program over another link
# shows nothing that the other tests do not, nor does a call over a link that others have passed bytes through; to that
# of threads, only what has several, and what they share.
set(again_with_addresses "_(collective|messages|messages_deaths|messages_matching|messages_random|request_end)_tls$")
string(APPEND again_with_addresses
       "|_(collective|comm|description|disagreement|exit|messages|mismatch|parts|request|split).*_tcp$")
set(again .)
if(SPARKRING_SANITIZE STREQUAL "thread")
  set(again "_(comm|messages_deaths|mismatch|request|request_end)_(connections|tcp|tls)$")
elseif(SPARKRING_SANITIZE)
  set(again "${again_with_addresses}")
endif()
function(test_again suffix environment)
  foreach(test_name ${ARGN})
    if(${test_name}_${suffix} MATCHES "${again}")
      add_test(NAME ${test_name}_${suffix} COMMAND ${test_name})
      set_tests_properties(${test_name}_${suffix} PROPERTIES TIMEOUT 600
                           ENVIRONMENT "${environment}")
    endif()
  endforeach()
endfunction()
# What runs collectives does so over shared memory, and once more over TCP alone.
test_again(tcp SPARKRING_SHARED_MEMORY=0 test_abort test_algorithm test_collective test_comm test_comm_timeline test_deadline
           test_description test_device_failure test_device_life test_device_lost test_device_path test_disagreement test_exit test_fusion
           test_hierarchical_failure test_hosts test_messages test_messages_deaths test_messages_failure
           test_messages_forgeries test_messages_matching test_messages_random test_mismatch
           test_orphan test_parts test_pmi test_pmi_failure test_reducer test_reducer_differences test_reducer_end
           test_reducer_forgeries test_reducer_kinds test_reducer_stall test_request test_request_end test_request_start test_shrink
           test_shrink_calls test_split test_split_failure test_stall)
# And some once more over links of several connections.
test_again(connections "SPARKRING_SHARED_MEMORY=0;SPARKRING_CONNECTIONS=3" test_collective test_comm test_messages
           test_messages_matching test_messages_random test_mismatch test_parts test_request test_shrink test_split
           test_split_failure)
# And encrypted.
test_again(tls "SPARKRING_SHARED_MEMORY=0;SPARKRING_ENCRYPTION=1" test_collective test_comm test_description test_messages
           test_messages_deaths test_messages_failure test_messages_matching test_messages_random test_mismatch test_parts
           test_pmi test_request test_request_end test_shrink test_shrink_calls test_split test_split_failure)
# Whatever the system's OpenSSL is set to.
if(NOT SPARKRING_SANITIZE)
  add_test(NAME test_link_settings COMMAND test_link)
  set_tests_properties(test_link_settings PROPERTIES TIMEOUT 600
                       ENVIRONMENT "OPENSSL_CONF=${CMAKE_SOURCE_DIR}/tests/core/openssl.cnf")
endif()
if(TARGET test_pmix)
  add_executable(pmix_client tests/core/pmix/programs/pmix_client.c)
  target_compile_options(pmix_client PRIVATE -Wall -Wextra -Werror)
  target_link_libraries(pmix_client PRIVATE PkgConfig::PMIX)
  set(open_mpi_program ${CMAKE_BINARY_DIR}/open_mpi_program)
  add_custom_command(OUTPUT ${open_mpi_program}
                     COMMAND ${OPEN_MPI_COMPILER} -Wall -Wextra -Werror
                             ${CMAKE_SOURCE_DIR}/tests/core/pmix/programs/open_mpi.c -o ${open_mpi_program}
                     DEPENDS tests/core/pmix/programs/open_mpi.c)
  add_custom_target(open_mpi_programs DEPENDS ${open_mpi_program})
  add_executable(pmix_stuck $<TARGET_PROPERTY:sparkring_pmix,SOURCES> tests/core/pmix/programs/stuck.c)
  target_include_directories(pmix_stuck PRIVATE core)
  target_link_libraries(pmix_stuck PRIVATE sparkring_flags PkgConfig::PMIX Threads::Threads)
  add_dependencies(test_pmix sparkring_pmix pmix_stuck pmix_client open_mpi_programs)
  target_include_directories(test_pmix PRIVATE tests/core/pmi)
  target_compile_definitions(test_pmix PRIVATE SPARKRING_PMIX="$<TARGET_FILE:sparkring_pmix>"
                             PMIX_STUCK="$<TARGET_FILE:pmix_stuck>"
                             PMIX_CLIENT="$<TARGET_FILE:pmix_client>" OPEN_MPI_PROGRAM="${open_mpi_program}")
endif()
target_include_directories(test_world PRIVATE tests/core/reducer)
foreach(test_name test_reducer_gpu test_reducer_gpu_failure)
  target_include_directories(${test_name} PRIVATE tests/core/device)
endforeach()
if(TARGET test_cuda_header)
  target_include_directories(test_cuda_header SYSTEM PRIVATE ${CUDA_INCLUDE})
endif()
if(TARGET test_nccl_header)
  target_include_directories(test_nccl_header SYSTEM PRIVATE ${NCCL_INCLUDE} ${CUDA_INCLUDE})
endif()
if(TARGET test_nvrtc_header)
  target_include_directories(test_nvrtc_header SYSTEM PRIVATE ${NVRTC_INCLUDE})
endif()
# Without NVRTC it reports that, and is skipped.
if(TEST test_kernels)
  set_tests_properties(test_kernels PROPERTIES SKIP_RETURN_CODE 77)
  if(NVRTC)
    set_tests_properties(test_kernels PROPERTIES ENVIRONMENT "SPARKRING_TEST_NVRTC=${NVRTC}")
  endif()
endif()
if(TARGET test_mpi)
  file(GLOB mpi_rank_sources CONFIGURE_DEPENDS tests/core/backend/programs/mpi_*.c)
  add_executable(mpi_rank ${mpi_rank_sources})
  target_link_libraries(mpi_rank PRIVATE sparkring_test_helpers sparkring_inside)
  add_dependencies(test_mpi mpi_rank)
  target_compile_definitions(test_mpi PRIVATE MPI_OPEN_MPI="${MPI_OPEN_MPI}" MPI_MPICH="${MPI_MPICH}"
                             MPI_STANDARD="${MPI_STANDARD}" MPI_OPEN_MPI_5="${MPI_OPEN_MPI_5}"
                             MPI_RANK="$<TARGET_FILE:mpi_rank>")
  if(TEST test_mpi) # not with the sanitizer of threads
    set_tests_properties(test_mpi PROPERTIES TIMEOUT 600) # 50 launches, of 1 s on a quiet machine
  endif()
endif()
# Our constants of MPI are those of each mpi.h that is here.
function(test_mpi_constants name compiler)
  find_program(MPI_COMPILER_${name} ${compiler})
  if(NOT MPI_COMPILER_${name} OR SPARKRING_SANITIZE OR CMAKE_CROSSCOMPILING)
    return()
  endif()
  set(source ${CMAKE_SOURCE_DIR}/tests/core/backend/programs/constants.c)
  set(program ${CMAKE_BINARY_DIR}/mpi_constants_${name})
  add_custom_command(OUTPUT ${program}
                     COMMAND ${MPI_COMPILER_${name}} -Wall -Wextra -Werror -I${CMAKE_SOURCE_DIR}/core
                             ${ARGN} ${source} -o ${program}
                     DEPENDS ${source} core/backend/mpi_constants.h)
  add_custom_target(build_mpi_constants_${name} ALL DEPENDS ${program})
  add_test(NAME mpi_constants_${name} COMMAND ${program})
endfunction()
test_mpi_constants(open_mpi mpicc.openmpi)
test_mpi_constants(mpich mpicc.mpich)
test_mpi_constants(standard ${MPI_STANDARD}/bin/mpicc_abi)
test_mpi_constants(mpich_5 ${MPI_STANDARD}/bin/mpicc)
test_mpi_constants(open_mpi_5 ${MPI_OPEN_MPI_5}/bin/mpicc)
target_link_options(test_memory PRIVATE -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc
                    -Wl,--wrap=aligned_alloc)
target_link_options(test_allocator PRIVATE -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free
                    -Wl,--wrap=aligned_alloc,--wrap=strdup,--wrap=strndup,--wrap=mmap,--wrap=munmap
                    -Wl,--wrap=getaddrinfo,--wrap=pthread_create)
target_link_options(test_descriptors PRIVATE -Wl,--wrap=ring_comm_gather_up)
target_link_options(test_pmi_shortage PRIVATE -Wl,--wrap=socketpair,--wrap=ring_platform_thread
                    -Wl,--wrap=ring_alloc,--wrap=malloc)
target_link_options(test_pmi_hub PRIVATE -Wl,--wrap=ring_platform_now)
target_link_options(test_reducer_stall PRIVATE -Wl,--wrap=ring_allgather)
target_link_options(test_backing PRIVATE -Wl,--wrap=fallocate,--wrap=memfd_create,--wrap=fcntl)
target_compile_definitions(test_unload PRIVATE SPARKRING_LIBRARY="$<TARGET_FILE:sparkring>")
add_dependencies(test_unload sparkring)
add_library(nccl_stub MODULE tests/core/libraries/nccl.c)
target_link_libraries(nccl_stub PRIVATE sparkring_flags)
target_compile_definitions(test_nccl_bootstrap PRIVATE SPARKRING_NCCL_STUB="$<TARGET_FILE:nccl_stub>")
add_dependencies(test_nccl_bootstrap nccl_stub)
# Stubs of CUDA's driver, of NVRTC, and of NCCL between ranks, which is made of communicators.
add_library(cuda_stub SHARED tests/core/libraries/cuda.c tests/core/libraries/cuda_kernels.c
            tests/core/libraries/cuda_streams.c)
target_link_libraries(cuda_stub PRIVATE sparkring_flags Threads::Threads)
target_include_directories(cuda_stub PRIVATE core)
target_compile_options(cuda_stub PRIVATE -fno-strict-aliasing) # memory of a GPU has no types
add_library(nvrtc_stub MODULE tests/core/libraries/nvrtc.c)
target_link_libraries(nvrtc_stub PRIVATE sparkring_flags)
target_include_directories(nvrtc_stub PRIVATE core)
add_library(nccl_ranks_stub SHARED tests/core/libraries/nccl_calls.c tests/core/libraries/nccl_ranks.c)
target_link_libraries(nccl_ranks_stub PRIVATE sparkring cuda_stub sparkring_flags Threads::Threads)
foreach(test_name test_device test_device_failure test_device_fusion test_device_life test_device_lost test_device_path
        test_reducer_gpu test_reducer_gpu_failure)
  target_compile_definitions(${test_name} PRIVATE SPARKRING_CUDA_STUB="$<TARGET_FILE:cuda_stub>"
                             SPARKRING_NCCL_RANKS_STUB="$<TARGET_FILE:nccl_ranks_stub>"
                             SPARKRING_NVRTC_STUB="$<TARGET_FILE:nvrtc_stub>")
  add_dependencies(${test_name} cuda_stub nccl_ranks_stub nvrtc_stub)
endforeach()
target_link_options(test_shm_nonsense PRIVATE -Wl,--wrap=ring_arena_offset,--wrap=ring_socket_send_fd
                    -Wl,--wrap=ring_shm_fold)
target_link_options(test_shm_collective PRIVATE -Wl,--wrap=ring_platform_memory_reserve)
target_link_options(test_resolver PRIVATE -Wl,--wrap=getaddrinfo)
target_link_options(test_damage PRIVATE -Wl,--wrap=recv,--wrap=recvmsg)
target_link_options(test_encryption PRIVATE -Wl,--wrap=send,--wrap=sendmsg)
target_link_options(test_altered PRIVATE -Wl,--wrap=send,--wrap=sendmsg)
target_link_options(test_blame PRIVATE -Wl,--wrap=poll)
target_link_options(test_blame_opening PRIVATE -Wl,--wrap=ring_socket_send_fd)
target_link_options(test_dump PRIVATE -Wl,--wrap=ring_link_tls,--wrap=ring_seal_begin,--wrap=ring_keys_init)
target_link_options(test_secret PRIVATE -Wl,--wrap=CRYPTO_memcmp)
target_link_options(test_rendezvous PRIVATE -Wl,--wrap=getsockname)
target_link_options(test_exchange PRIVATE -Wl,--wrap=ring_shm_settle)
target_link_options(test_scale PRIVATE -Wl,--wrap=send,--wrap=recv,--wrap=sendmsg,--wrap=recvmsg)
# Every interleaving of the threads of the real code: they are contexts on one thread.
set(interleavings_wraps pthread_mutex_lock pthread_mutex_unlock pthread_cond_wait pthread_cond_signal
    pthread_cond_broadcast ring_platform_condition_wait ring_platform_condition_wait_ns ring_platform_thread
    pthread_join pthread_self ring_platform_now poll)
list(TRANSFORM interleavings_wraps PREPEND -Wl,--wrap=)
foreach(test_name test_messages_wakeups test_pmi_wakeups test_progress_wakeups test_reducer_wakeups test_request_wakeups)
  target_link_options(${test_name} PRIVATE ${interleavings_wraps})
endforeach()
target_link_options(test_request_wakeups PRIVATE
                    -Wl,--wrap=ring_fusion_run,--wrap=ring_shm_await_starts,--wrap=ring_comm_break)
target_sources(test_simulation PRIVATE bench/simulation.c)
target_include_directories(test_simulation PRIVATE bench)
add_test(NAME exported_symbols
         COMMAND ${CMAKE_COMMAND} -DNM=${CMAKE_NM} -DLIBRARY=$<TARGET_FILE:sparkring>
                 -P ${CMAKE_SOURCE_DIR}/tests/core/exported_symbols.cmake)

# The header from C++. With sanitizers, or another architecture, the compilers may not fit each other.
include(CheckLanguage)
check_language(CXX)
if(CMAKE_CXX_COMPILER AND NOT SPARKRING_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
  enable_language(CXX)
  add_executable(test_cxx tests/core/api/test_cxx.cc)
  set_target_properties(test_cxx PROPERTIES CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON
                        CXX_EXTENSIONS OFF)
  target_compile_options(test_cxx PRIVATE -Wall -Wextra -Wpedantic -Werror)
  target_link_libraries(test_cxx PRIVATE sparkring)
  add_test(NAME test_cxx COMMAND test_cxx)
  set_tests_properties(test_cxx PROPERTIES TIMEOUT 600)
endif()

# Random worlds against a plain reference: a short run here, one of hours by hand.
file(GLOB soak_sources CONFIGURE_DEPENDS tests/soak/*.c)
add_executable(soak ${soak_sources} tests/core/support/load.c tests/core/support/values.c)
target_include_directories(soak PRIVATE tests/core/support)
target_link_libraries(soak PRIVATE sparkring sparkring_flags Threads::Threads m)
add_test(NAME soak COMMAND soak --seed 1 --seconds 20 --faults 0.4 --patience 5)
set_tests_properties(soak PROPERTIES TIMEOUT 600)
# Ranks killed and stopped at any moment; 500 kills take some minutes: --worlds 500. Nine of ten worlds
# have to get the error for a kill within a second, for a stop within a second of the deadline (on a busy machine
# three of four); the patience is for single ones.
add_test(NAME soak_killed
         COMMAND soak --seed 1 --seconds 15 --worlds 30 --faults 1 --only killed --patience 5)
set_tests_properties(soak_killed PROPERTIES TIMEOUT 600)
# This one mostly waits for deadlines; with sanitizers soak has stopped ranks, too.
if(NOT SPARKRING_SANITIZE)
  add_test(NAME soak_stopped
           COMMAND soak --seed 1 --worlds 22 --faults 1 --only stopped --patience 5)
  set_tests_properties(soak_stopped PROPERTIES TIMEOUT 600)
endif()

# How many tests ctest runs: as many as their PROCESSORS add up to its --parallel. Three stand for one
# processor that is busy, which a test counts as unless it is here: most of these wait nearly all the
# time, the others keep more than one busy. Those begin first, for between others they find no room.
get_property(all_tests DIRECTORY PROPERTY TESTS)
set_tests_properties(${all_tests} PROPERTIES PROCESSORS 3)
function(test_takes seconds processors)
  foreach(test_name ${ARGN})
    if(TEST ${test_name})
      set_tests_properties(${test_name} PROPERTIES COST ${seconds} PROCESSORS ${processors})
    endif()
  endforeach()
endfunction()
# It counts bytes, and ranks that wait for 10 s to open send reports of it to each other: nothing beside it.
test_takes(100 9 test_scale)
test_takes(90 5 test_algorithm test_algorithm_tcp test_collective_tcp test_collective_connections test_collective_tls
           test_hierarchical test_link test_link_settings test_shm_collective test_schedule)
test_takes(95 1 soak_stopped)
test_takes(55 1 test_blame_opening test_exchange)
test_takes(40 1 test_stall test_stall_tcp)
test_takes(25 1 test_actors test_altered test_blame test_rendezvous test_shm_failure test_shm_pieces soak_killed)
test_takes(10 5 test_collective)
test_takes(20 2 test_comm_connections test_comm_tcp test_comm_tls)
test_takes(10 2 test_comm)
test_takes(15 1 test_resolver test_split_failure test_split_failure_connections test_split_failure_tcp
           test_split_failure_tls)
test_takes(30 3 test_pmix)
test_takes(60 5 test_mpi)
test_takes(10 2 test_messages_deaths test_messages_deaths_tcp test_messages_deaths_tls)
test_takes(15 3 test_messages_random test_messages_random_connections test_messages_random_tcp test_messages_random_tls)
test_takes(5 1 test_messages_failure test_messages_failure_tcp test_messages_failure_tls test_pmi_failure
           test_pmi_failure_tcp)
test_takes(20 2 test_device test_device_failure test_device_failure_tcp test_device_lost test_device_lost_tcp)
test_takes(5 1 test_besieged test_deadline test_deadline_tcp test_inherited test_connections
           test_orphan test_orphan_tcp test_request_end test_request_end_tcp test_request_end_tls
           test_outsiders)
test_takes(15 3 test_messages_wakeups test_pmi_wakeups test_progress_wakeups test_reducer_wakeups test_request_wakeups)
test_takes(60 3 test_allocator)
test_takes(25 3 test_backing test_descriptors test_disagreement_tcp test_fusion_tcp test_kernel soak)
test_takes(10 3 test_disagreement test_forks test_fusion test_shm_mismatch)
# These start dozens of processes, whose others get the error for a failure soon: one at a time.
foreach(test_name test_allocator test_descriptors test_kernel)
  if(TEST ${test_name})
    set_tests_properties(${test_name} PROPERTIES RESOURCE_LOCK processes)
  endif()
endforeach()

# scripts/test all leaves these to the sanitizers of addresses: they take the processors long, and the code that gcc
# has optimized shows nothing there. What it may break stays with gcc, too: reductions, algorithms, soaks, clocks.
foreach(test_name test_allocator test_backing test_collective_tcp test_collective_tls test_descriptors test_device
        test_disagreement_tcp test_hierarchical test_link test_messages_random_tcp test_messages_random_tls test_pmix)
  if(test_name MATCHES "${without_addresses}"
     OR (test_name MATCHES "_(connections|tcp|tls)$" AND NOT test_name MATCHES "${again_with_addresses}"))
    message(FATAL_ERROR "${test_name} is left to sanitizers that do not run it")
  endif()
  if(TEST ${test_name} AND NOT SPARKRING_SANITIZE)
    set_tests_properties(${test_name} PROPERTIES LABELS sanitized)
  endif()
endforeach()

# scripts/test runs what has the label quick: each test of less than 15 s, in its first environment.
foreach(test_name ${all_tests})
  get_property(seconds TEST ${test_name} PROPERTY COST)
  if(NOT test_name MATCHES "_(connections|settings|tcp|tls)$" AND (NOT seconds OR seconds LESS 15))
    set_tests_properties(${test_name} PROPERTIES LABELS quick)
  endif()
endforeach()
