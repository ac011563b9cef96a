# Embeds text files in a C++ source, each as one string.
#
# Included, it defines coconet_embed(OUTPUT file.cpp TEMPLATE file.cpp.in BASES dir... FILES file...). Run as a script
# (cmake -DOUTPUT=... -DTEMPLATE=... -DBASES=a|b -DFILES=a|b|... -P embed.cmake) it writes OUTPUT: the template with
# @EMBEDDED@ replaced by one row {"name", "text"} for every file, sorted by name, and @DIGESTS@ by rows
# {"name", "SHA-256"}. A file's name is its path below the first of BASES that it is in.

if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(COCONET_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})

  function(coconet_embed)
    cmake_parse_arguments(PARSE_ARGV 0 embed "" "OUTPUT;TEMPLATE" "BASES;FILES")
    string(REPLACE ";" "|" files "${embed_FILES}")
    string(REPLACE ";" "|" bases "${embed_BASES}")
    add_custom_command(
      OUTPUT ${embed_OUTPUT}
      COMMAND ${CMAKE_COMMAND} -DOUTPUT=${embed_OUTPUT} -DTEMPLATE=${embed_TEMPLATE} "-DBASES=${bases}" "-DFILES=${files}"
        -P ${COCONET_EMBED_SCRIPT}
      DEPENDS ${embed_FILES} ${embed_TEMPLATE} ${COCONET_EMBED_SCRIPT}
      COMMENT "Embedding text in ${embed_OUTPUT}"
      VERBATIM)
    # One literal may be longer than the 65536 characters that every C++ compiler must take; ours take more.
    set_source_files_properties(${embed_OUTPUT} PROPERTIES COMPILE_OPTIONS -Wno-overlength-strings)
  endfunction()
  return()
endif()

cmake_policy(VERSION 3.25)

# Compilers limit the length of one literal token, not of adjacent ones, which they join; pieces end at a line's
# end so that no character is cut in two.
set(piece_bytes 12000)
set(delimiter "coconet_text")

# Sets `out` to `text` as adjacent raw string literals.
function(literals out text)
  string(FIND "${text}" ")${delimiter}\"" found)
  if(NOT found EQUAL -1)
    message(FATAL_ERROR "A file to embed contains )${delimiter}\", which ends a raw string.")
  endif()
  set(result "")
  string(LENGTH "${text}" left)
  while(left GREATER piece_bytes)
    string(SUBSTRING "${text}" 0 ${piece_bytes} piece)
    string(FIND "${piece}" "\n" newline REVERSE)
    if(newline EQUAL -1)
      message(FATAL_ERROR "A file to embed has a line of more than ${piece_bytes} bytes.")
    endif()
    math(EXPR cut "${newline} + 1")
    string(SUBSTRING "${text}" 0 ${cut} piece)
    string(SUBSTRING "${text}" ${cut} -1 text)
    string(LENGTH "${text}" left)
    string(APPEND result "R\"${delimiter}(${piece})${delimiter}\"\n")
  endwhile()
  string(APPEND result "R\"${delimiter}(${text})${delimiter}\"")
  set(${out} "${result}" PARENT_SCOPE)
endfunction()

string(REPLACE "|" ";" bases "${BASES}")
string(REPLACE "|" ";" files "${FILES}")
list(SORT files)
set(EMBEDDED "")
set(DIGESTS "")
foreach(file IN LISTS files)
  file(READ ${file} text)
  literals(text_literals "${text}")
  foreach(base IN LISTS bases)
    cmake_path(IS_PREFIX base ${file} is_below)
    if(is_below)
      cmake_path(RELATIVE_PATH file BASE_DIRECTORY ${base} OUTPUT_VARIABLE name)
      break()
    endif()
  endforeach()
  string(APPEND EMBEDDED "{\"${name}\",\n${text_literals}},\n")
  file(SHA256 ${file} digest)
  string(APPEND DIGESTS "{\"${name}\", \"${digest}\"},\n")
endforeach()
file(READ ${TEMPLATE} content)
string(CONFIGURE "${content}" content @ONLY)
file(WRITE ${OUTPUT} "${content}")
