# Run by CPack when the components lie in their staging folders: adds what Debian wants in every package (the copyright
# file, and the changelog, compressed) and compresses the manual page.
find_program(gzip gzip REQUIRED)

foreach(entry IN LISTS CPACK_COCONET_PACKAGES)
  string(REGEX MATCH "^([^:]+):(.+)$" matched ${entry})
  set(root ${CPACK_TEMPORARY_DIRECTORY}/${CMAKE_MATCH_1}${CPACK_PACKAGING_INSTALL_PREFIX})
  set(doc ${root}/share/doc/${CMAKE_MATCH_2})
  file(MAKE_DIRECTORY ${doc})
  # Debian has the text of the licence in one place for all packages.
  file(WRITE ${doc}/copyright
"Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: coconet-jit

Files: *
Copyright: the coconet-jit authors
License: Apache-2.0
 Licensed under the Apache License, Version 2.0. On Debian systems its text is in
 /usr/share/common-licenses/Apache-2.0.
")
  file(REMOVE ${doc}/LICENSE ${doc}/CHANGELOG.md)
  configure_file(${CPACK_COCONET_SOURCE_DIR}/CHANGELOG.md ${doc}/changelog COPYONLY)
  file(GLOB man_pages ${root}/share/man/man*/*.[1-9])
  foreach(file IN LISTS man_pages ITEMS ${doc}/changelog)
    execute_process(COMMAND ${gzip} -9 -n -f ${file} COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
  file(GLOB_RECURSE files ${root}/share/*)
  file(CHMOD ${files} PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
endforeach()
