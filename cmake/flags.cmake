# How every target of this project is compiled. The target coconet_flags carries the warnings.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)

add_library(coconet_flags INTERFACE)
target_compile_options(coconet_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wno-sign-conversion
  $<$<NOT:$<BOOL:$<TARGET_PROPERTY:COCONET_MAY_SHADOW>>>:-Wshadow>
  $<$<BOOL:${COCONET_WERROR}>:-Werror>)
# Two warnings of gcc that are wrong about standard headers: gcc 12 takes `"text" + string` for overlapping memory
# (https://gcc.gnu.org/PR105651), and the sanitizers' code hides from it what has been initialized.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(coconet_flags INTERFACE -Wno-restrict)
  endif()
  if(COCONET_SANITIZE)
    target_compile_options(coconet_flags INTERFACE -Wno-maybe-uninitialized)
  endif()
endif()

# What gets installed names its sources from the project's folder on, wherever that was: in debugging information, and in
# what __FILE__ gives. Debug builds keep whole paths, which debuggers follow from any folder.
set(COCONET_INSTALLED_OPTIONS $<$<NOT:$<CONFIG:Debug>>:-ffile-prefix-map=${PROJECT_SOURCE_DIR}=.>)

# Links what is used, of all that packages name: MPI's, for one, names the library of its old C++ bindings.
add_link_options(-Wl,--as-needed)

# coconet_movable(TARGETS...): programs that find libraries in the folder lib beside their own, so that both can be moved
# together (tests/gpu/bundle.sh). RPATH rather than RUNPATH, as it also holds for what these libraries and plugins need.
function(coconet_movable)
  foreach(target IN LISTS ARGN)
    set_target_properties(${target} PROPERTIES BUILD_RPATH "$ORIGIN/../lib")
    target_link_options(${target} PRIVATE -Wl,--disable-new-dtags)
  endforeach()
endfunction()

# Global rather than in coconet_flags: a program is checked only when all of it is instrumented.
if(COCONET_SANITIZE)
  add_compile_options(-fsanitize=${COCONET_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${COCONET_SANITIZE})
endif()

# What is looked through for inputs tells libFuzzer which of its branches they take.
if(COCONET_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "COCONET_FUZZ takes clang, which comes with libFuzzer; the compiler is ${CMAKE_CXX_COMPILER}.")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
