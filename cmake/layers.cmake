# Layers: OBJECT targets that can include only what lies below them.
#
# For every layer a directory of the build tree, its window, holds one symbolic link to the layer's folder:
# layers/jit_cache/jit/cache -> src/jit/cache. A layer compiles with include/, its own window and those of the
# layers that it SEES, so that any other include names a file that the compiler cannot find.

# Precompiled for all layers: headers from outside that most files include. The build with AddressSanitizer goes without,
# so that a file that leaves out one of its own includes is found by it.
set(precompiles ON)
if(COCONET_SANITIZE MATCHES address)
  set(precompiles OFF)
endif()
add_library(coconet_headers OBJECT ${PROJECT_SOURCE_DIR}/cmake/precompiled.cpp)
target_link_libraries(coconet_headers PRIVATE coconet_flags fmt::fmt)
if(precompiles)
  target_precompile_headers(coconet_headers PRIVATE ${PROJECT_SOURCE_DIR}/cmake/precompiled.h)
endif()

# The window of `layer`.
function(coconet_window out layer)
  set(${out} ${PROJECT_BINARY_DIR}/layers/${layer} PARENT_SCOPE)
endfunction()

# coconet_layer(NAME FOLDER dir-below-src SOURCES file... [SEES layer...] [USES library...] [GENERATED dir])
#
# A layer without SOURCES is headers only. USES are libraries outside the project. GENERATED is a directory of generated
# headers that belong to the layer.
function(coconet_layer name)
  cmake_parse_arguments(PARSE_ARGV 1 layer "" "FOLDER;GENERATED" "SOURCES;SEES;USES")

  coconet_window(window ${name})
  cmake_path(GET layer_FOLDER PARENT_PATH parent)
  file(MAKE_DIRECTORY ${window}/${parent})
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/src/${layer_FOLDER} ${window}/${layer_FOLDER} SYMBOLIC)

  if(layer_SOURCES)
    set(scope PRIVATE)
    add_library(${name} OBJECT ${layer_SOURCES})
    target_compile_options(${name} PRIVATE ${COCONET_INSTALLED_OPTIONS})
    if(precompiles)
      # Where a library brings other options the compiler takes the headers as they are.
      target_precompile_headers(${name} REUSE_FROM coconet_headers)
      set_target_properties(${name} PROPERTIES PCH_WARN_INVALID OFF)
    endif()
  else()
    set(scope INTERFACE)
    add_library(${name} INTERFACE)
  endif()
  set(include_dirs ${PROJECT_SOURCE_DIR}/include ${window} ${layer_GENERATED})
  foreach(below IN LISTS layer_SEES)
    get_target_property(dirs ${below} COCONET_WINDOWS)
    list(APPEND include_dirs ${dirs})
  endforeach()
  target_include_directories(${name} ${scope} ${include_dirs})
  target_link_libraries(${name} ${scope} coconet_flags fmt::fmt ${layer_USES})
  set_target_properties(${name} PROPERTIES COCONET_WINDOWS "${window};${layer_GENERATED}")
endfunction()

# Files of loops over long arrays, of which gcc makes vector code at -O3, of conversions to f16 only where no operation may trap.
# It crashes over headers that were precompiled with another optimization.
function(coconet_vectorized)
  set_source_files_properties(${ARGN} PROPERTIES
    COMPILE_OPTIONS "$<$<NOT:$<CONFIG:Debug>>:-O3;-fno-trapping-math>" SKIP_PRECOMPILE_HEADERS ON)
endfunction()

# The .cpp files of `folder` (relative to the current directory) and of all folders below it.
function(coconet_sources out folder)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp)
  set(${out} ${sources} PARENT_SCOPE)
endfunction()

# Keeps one of a pair: drops no_<part>.cpp from the list when the part is there, <part>.cpp when it is not.
function(coconet_pair list part present)
  if(present)
    set(other no_${part}.cpp)
  else()
    set(other ${part}.cpp)
  endif()
  list(FILTER ${list} EXCLUDE REGEX "/${other}$")
  set(${list} ${${list}} PARENT_SCOPE)
endfunction()
