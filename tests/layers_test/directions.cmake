# The directions that includes may take, stated apart from the build files so that these cannot loosen them
# unnoticed. coconet_may_include(out LAYER OTHER) says whether files of LAYER may include headers of OTHER.

set(layers
  ir sched
  jit_config jit_device jit_cache jit_cuda jit_compile jit_algo jit_codegen jit_comm jit_backend jit
  cli)

set(below_ir "")
set(below_sched ir)
set(below_jit_config ir)
set(below_jit_device "")
set(below_jit_cache jit_config)
set(below_jit_cuda jit_config)
set(below_jit_compile jit_config jit_device jit_cache jit_cuda)
set(below_jit_algo ir sched)
set(below_jit_codegen ir sched jit_algo jit_device)
set(below_jit_comm ir jit_config jit_cuda)
set(below_jit_backend ir sched jit_config jit_device jit_cache jit_cuda jit_compile jit_algo)
set(below_jit ${layers})
list(REMOVE_ITEM below_jit jit cli)
set(below_cli ${below_jit} jit)

function(coconet_may_include out layer other)
  set(${out} OFF PARENT_SCOPE)
  if(layer STREQUAL other OR other IN_LIST below_${layer})
    set(${out} ON PARENT_SCOPE)
  endif()
endfunction()

# The folder of `layer` below src/.
function(coconet_folder_of out layer)
  string(REPLACE "jit_" "jit/" folder ${layer})
  set(${out} ${folder} PARENT_SCOPE)
endfunction()

# The layer that a path below src/ belongs to; empty when there is none.
function(coconet_layer_of out path)
  set(${out} "" PARENT_SCOPE)
  set(layer "")
  if(path MATCHES "^jit/([a-z_]+)/")
    set(layer jit_${CMAKE_MATCH_1})
  elseif(path MATCHES "^([a-z_]+)/")
    set(layer ${CMAKE_MATCH_1})
  endif()
  if(layer IN_LIST layers)
    set(${out} ${layer} PARENT_SCOPE)
  endif()
endfunction()
