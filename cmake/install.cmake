# SPDX-License-Identifier: Apache-2.0
#
# What cmake --install installs: the headers, the library, sparkring-pmix if it was built, the license, and what
# pkg-config and find_package read. All paths are relative to the files that name them: the folder may be moved.
include(CMakePackageConfigHelpers)
foreach(folder INCLUDEDIR LIBDIR)
  if(IS_ABSOLUTE ${CMAKE_INSTALL_${folder}})
    message(FATAL_ERROR "CMAKE_INSTALL_${folder} is ${CMAKE_INSTALL_${folder}}: name a folder below the prefix.")
  endif()
endforeach()

file(GLOB headers CONFIGURE_DEPENDS core/sparkring*.h)
install(FILES ${headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(TARGETS sparkring EXPORT sparkringTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET sparkring_pmix)
  install(TARGETS sparkring_pmix RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# A program that links the shared library needs nothing else; one that links the archive needs what it uses.
set(pc_requires "")
set(pc_libraries "")
if(NOT BUILD_SHARED_LIBS)
  set(pc_requires "libssl >= 1.1.1, libcrypto >= 1.1.1")
  set(pc_libraries "-pthread -lm -ldl")
endif()
file(RELATIVE_PATH pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" pc_prefix "${pc_prefix}")
configure_file(cmake/sparkring.pc.in ${CMAKE_CURRENT_BINARY_DIR}/sparkring.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/sparkring.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(config ${CMAKE_INSTALL_LIBDIR}/cmake/sparkring)
configure_package_config_file(cmake/sparkringConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/sparkringConfig.cmake
                              INSTALL_DESTINATION ${config} NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/sparkringConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/sparkringConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/sparkringConfigVersion.cmake
        DESTINATION ${config})
install(EXPORT sparkringTargets NAMESPACE sparkring:: DESTINATION ${config})
