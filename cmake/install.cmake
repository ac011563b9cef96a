# cmake --install: the library, its headers, the command, the schedules, and how other builds find them. Components are
# what a package is made of (package.cmake): `runtime` runs applications, `mpi` those
# with MPI, `development` builds them, `command` is coconet.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/coconet-jit)
set(data_dir ${CMAKE_INSTALL_DATADIR}/coconet-jit)

# The prefix may be given as late as `cmake --install --prefix`, so that .pc files find it from their own place.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_LIBDIR BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX} OUTPUT_VARIABLE libdir)
cmake_path(APPEND libdir pkgconfig OUTPUT_VARIABLE pkgconfig_dir)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX
  BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX}/${pkgconfig_dir} OUTPUT_VARIABLE prefix_from_pkgconfig)

# coconet_install_library(TARGET COMPONENT): a library of applications; cmake/TARGET.pc.in describes it to pkg-config.
function(coconet_install_library target component)
  install(TARGETS ${target} EXPORT coconet-jit-targets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component} NAMELINK_COMPONENT development)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/${target}.pc.in ${PROJECT_BINARY_DIR}/${target}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${target}.pc DESTINATION ${pkgconfig_dir} COMPONENT development)
endfunction()

# coconet/mpi.h includes MPI's header, and its users call MPI: they need the MPI that the library was built with.
list(TRANSFORM MPI_CXX_INCLUDE_DIRS PREPEND -I OUTPUT_VARIABLE mpi_cflags)
list(TRANSFORM MPI_CXX_COMPILE_DEFINITIONS PREPEND -D OUTPUT_VARIABLE mpi_definitions)
list(FILTER mpi_definitions EXCLUDE REGEX "SKIP_MPICXX|_MPICC_H")  # the library's own choice
list(JOIN mpi_cflags " " mpi_cflags)
string(JOIN " " mpi_cflags ${mpi_cflags} ${mpi_definitions} ${MPI_CXX_COMPILE_OPTIONS})
string(JOIN " " mpi_libs ${MPI_CXX_LINK_FLAGS} ${MPI_CXX_LIBRARIES})

coconet_install_library(coconet-jit runtime)
coconet_install_library(coconet-jit-mpi mpi)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/coconet DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
  FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/sched/shipped/
  DESTINATION ${data_dir}/schedules COMPONENT development FILES_MATCHING PATTERN "*.json")
install(FILES docs/schedule.schema.json DESTINATION ${data_dir} COMPONENT development)

install(EXPORT coconet-jit-targets NAMESPACE coconet:: DESTINATION ${config_dir} COMPONENT development)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/coconet-jit-config.cmake.in
  ${PROJECT_BINARY_DIR}/coconet-jit-config.cmake INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/coconet-jit-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/coconet-jit-config.cmake
  ${PROJECT_BINARY_DIR}/coconet-jit-config-version.cmake
  DESTINATION ${config_dir} COMPONENT development)

install(TARGETS coconet RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT command)
# What README links to lies beside it as in the source tree, so that its links hold.
install(FILES LICENSE CHANGELOG.md CONTRIBUTING.md README.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT command)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT command
  FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.schema.json" PATTERN doxygen EXCLUDE)
install(FILES kernel_cache/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/kernel_cache COMPONENT command)

# The manual page is the command's own --help and the table of docs/configuration.md.
set(man_page ${PROJECT_BINARY_DIR}/man/coconet.1)
add_custom_command(
  OUTPUT ${man_page}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/man
  COMMAND sh ${PROJECT_SOURCE_DIR}/cmake/man.sh $<TARGET_FILE:coconet> ${PROJECT_VERSION}
    ${PROJECT_SOURCE_DIR}/docs/configuration.md > ${man_page}.new
  COMMAND ${CMAKE_COMMAND} -E rename ${man_page}.new ${man_page}
  DEPENDS coconet ${PROJECT_SOURCE_DIR}/cmake/man.sh ${PROJECT_SOURCE_DIR}/docs/configuration.md
  COMMENT "Writing the manual page coconet(1)"
  VERBATIM)
add_custom_target(man ALL DEPENDS ${man_page})
install(FILES ${man_page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT command)
