# The target `docs`: the API reference by Doxygen, where that is installed. docs/doxygen says how it reads the headers.
find_program(COCONET_DOXYGEN doxygen DOC "Doxygen, for the target docs")
mark_as_advanced(COCONET_DOXYGEN)
if(COCONET_DOXYGEN)
  set(COCONET_REFERENCE_DIR ${PROJECT_BINARY_DIR}/docs)
  set(COCONET_REFERENCE_HEADERS ${PROJECT_SOURCE_DIR}/include/coconet)
  configure_file(${PROJECT_SOURCE_DIR}/docs/doxygen/Doxyfile.in ${PROJECT_BINARY_DIR}/Doxyfile @ONLY)
  add_custom_target(docs
    COMMAND ${CMAKE_COMMAND} -E make_directory ${COCONET_REFERENCE_DIR}
    COMMAND ${COCONET_DOXYGEN} ${PROJECT_BINARY_DIR}/Doxyfile
    COMMENT "Writing the API reference to ${COCONET_REFERENCE_DIR}/html"
    VERBATIM)
endif()
