# cpack -G DEB: a package for each component of install.cmake, named and divided as Debian does.

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME coconet-jit)
set(CPACK_PACKAGE_VENDOR coconet-jit)
set(CPACK_PACKAGE_CONTACT "The coconet-jit maintainers <maintainers@localhost>" CACHE STRING
  "Maintainer of packages: a name and a mail address")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/package_docs.cmake)
set(CPACK_COCONET_SOURCE_DIR ${PROJECT_SOURCE_DIR})

# What is linked comes from dpkg-shlibdeps; what is loaded or started at run time is named here. docs/dependencies.md
# says what each is for.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
set(run_time_recommends "g++ | c++-compiler, libopenblas0")
set(run_time_suggests "libdnnl2, openmpi-bin")
set(exact_version "(= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")

# coconet_package(COMPONENT PACKAGE SECTION DESCRIPTION): the first line of the description is its summary.
macro(coconet_package component package section description)
  list(APPEND CPACK_COMPONENTS_ALL ${component})
  list(APPEND CPACK_COCONET_PACKAGES ${component}:${package})  # for package_docs.cmake
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${package})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section})
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "${description}")
endmacro()

# coconet_library_package(COMPONENT TARGET DESCRIPTION): the package of a library is named after its SONAME, so that two
# versions can be there at once. It belongs to those before it in just this version, as the development package to all.
macro(coconet_library_package component target description)
  coconet_package(${component} lib${target}${COCONET_SOVERSION} libs "${description}")
  string(TOUPPER ${component} upper)
  list(JOIN library_packages ", " CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS)
  list(APPEND library_packages "lib${target}${COCONET_SOVERSION} ${exact_version}")
endmacro()

set(CPACK_COMPONENTS_ALL)
set(CPACK_COCONET_PACKAGES)
set(library_packages)
coconet_library_package(runtime coconet-jit "distributed steps, scheduled and compiled at run time
An application describes a step of computation and communication as a graph
of tensors; a schedule says how to run it, and this library rewrites, fuses,
generates, compiles and launches it, on processors or NVIDIA GPUs. Kernels are
compiled at run time, those of processors by the system's C++ compiler.")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS "${run_time_recommends}")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS "${run_time_suggests}")

coconet_library_package(mpi coconet-jit-mpi "distributed steps compiled at run time: worlds of MPI
The worlds of coconet-jit whose ranks are processes of MPI. Programs that find
their processes otherwise do without it.")

coconet_package(development libcoconet-jit-dev libdevel "headers of coconet-jit, distributed steps compiled at run time
What applications are built with: headers, what find_package of CMake and
pkg-config read, the shipped schedules as files to start from, and the JSON
schema of schedules.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SHLIBDEPS OFF)
list(JOIN library_packages ", " CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS "libopenmpi-dev, pkg-config")

coconet_package(command coconet-jit science "explains, runs and tunes distributed steps compiled at run time
The coconet command runs programs on the ranks of mpirun, shows what a
schedule makes of a program down to its kernels, checks and measures it,
finds the quickest schedule, and looks after the cache of kernels.")
set(CPACK_DEBIAN_COMMAND_PACKAGE_RECOMMENDS "${run_time_recommends}")
set(CPACK_DEBIAN_COMMAND_PACKAGE_SUGGESTS "${run_time_suggests}")

include(CPack)
