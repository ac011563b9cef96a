# The directions that includes may take, stated apart from the build files so that these cannot loosen them
# unnoticed. coconet_may_include(out LAYER OTHER) says whether files of LAYER may include headers of OTHER.

# Lowest first. ir and sched are a tower of their own; the folders of src/jit point down this list only.
set(layers
  ir sched
  jit_abi jit_config jit_cache jit_checkpoint jit_comm jit_prelude jit_exchange jit_codegen jit_platform jit_kernels
  jit_bind jit_run jit_tune jit_api jit_mpi cli)

set(below_ir "")
set(below_sched ir)
set(below_jit_abi "")
set(below_jit_config ir)
set(below_jit_cache jit_config)
set(below_jit_checkpoint ir jit_config jit_cache)
set(below_jit_comm ir jit_abi jit_config)
set(below_jit_mpi ir jit_abi jit_config jit_comm)
set(below_jit_prelude jit_abi)
set(below_jit_exchange ir sched jit_abi jit_prelude)
set(below_jit_codegen ir sched jit_abi jit_prelude jit_exchange)
set(below_jit_platform
  ir sched jit_abi jit_config jit_cache jit_comm jit_prelude jit_exchange jit_codegen)
set(below_jit_kernels ${below_jit_platform} jit_platform)
set(below_jit_bind ${below_jit_kernels} jit_kernels)
set(below_jit_run ${below_jit_bind} jit_bind jit_checkpoint)
set(below_jit_tune ${below_jit_bind} jit_bind jit_run)
set(below_jit_api ${below_jit_tune} jit_tune)
set(below_cli ${below_jit_tune} jit_tune jit_mpi)

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
