# cmake --install: the library, its headers, the command, the schedules, and how other builds find them.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/coconet-jit)

install(TARGETS coconet-jit EXPORT coconet-jit-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS coconet RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/coconet DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/sched/shipped/
  DESTINATION ${CMAKE_INSTALL_DATADIR}/coconet-jit/schedules FILES_MATCHING PATTERN "*.json")

install(FILES LICENSE CHANGELOG.md README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

install(EXPORT coconet-jit-targets NAMESPACE coconet:: DESTINATION ${config_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/coconet-jit-config.cmake.in
  ${PROJECT_BINARY_DIR}/coconet-jit-config.cmake INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/coconet-jit-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/coconet-jit-config.cmake
  ${PROJECT_BINARY_DIR}/coconet-jit-config-version.cmake
  DESTINATION ${config_dir})

# The prefix may be given as late as `cmake --install --prefix`, so that the .pc file finds it from its own place.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_LIBDIR BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX} OUTPUT_VARIABLE libdir)
cmake_path(APPEND libdir pkgconfig OUTPUT_VARIABLE pkgconfig_dir)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX
  BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX}/${pkgconfig_dir} OUTPUT_VARIABLE prefix_from_pkgconfig)
configure_file(${PROJECT_SOURCE_DIR}/cmake/coconet-jit.pc.in ${PROJECT_BINARY_DIR}/coconet-jit.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/coconet-jit.pc DESTINATION ${pkgconfig_dir})

if(COCONET_KERNEL_CACHE)
  install(CODE "message(STATUS \"Note: this build caches its kernels in ${COCONET_KERNEL_CACHE} by default.\
 Configure with -DCOCONET_KERNEL_CACHE= for a library that uses each user's own cache directory.\")")
endif()
