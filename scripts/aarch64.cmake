# SPDX-License-Identifier: Apache-2.0
#
# Builds for 64-bit Arm and runs the tests in an emulator, after scripts/setup aarch64:
#   cmake -S . -B build/aarch64 -G Ninja -DCMAKE_TOOLCHAIN_FILE=scripts/aarch64.cmake -DSPARKRING_TESTS=ON
# The emulator runs on x86-64, which orders memory more strictly than Arm: it shows what is wrong in the
# code of a port, and no fences that are missing.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
get_filename_component(aarch64 ${CMAKE_CURRENT_LIST_DIR}/../.venv/aarch64 ABSOLUTE)
set(CMAKE_C_FLAGS_INIT "-isystem ${aarch64}/usr/include/aarch64-linux-gnu")
set(CMAKE_FIND_ROOT_PATH ${aarch64} /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
