# `cmake --install`: programs and their modules, and, with the compiler, libZtc.so, headers, definitions and the CMake package.
# Two components: `runtime` for a machine that trains (no LLVM there), `compiler` for the rest.
foreach(target ztc-run ztc ztc-opt ztc-reduce ztc-lsp-server)
  set(component compiler)
  if(target STREQUAL ztc-run)
    set(component runtime)
  endif()
  if(TARGET ${target})
    set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
    install(TARGETS ${target} RUNTIME DESTINATION bin COMPONENT ${component})
  endif()
endforeach()
foreach(target ztc-gloo ztc-cudnn)
  if(TARGET ${target})
    install(TARGETS ${target} LIBRARY DESTINATION lib COMPONENT runtime)
  endif()
endforeach()
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE ${CMAKE_SOURCE_DIR}/NOTICES DESTINATION share/doc/ztc COMPONENT runtime)
if(NOT ZTC_BUILD_COMPILER)
  return()
endif()
install(TARGETS Ztc LIBRARY DESTINATION lib COMPONENT compiler)
foreach(folder ${ztc_public_folders})
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/${folder}/ DESTINATION include/ztc/${folder} COMPONENT compiler
          FILES_MATCHING PATTERN "*.h" PATTERN "*.td" PATTERN "*.def" PATTERN "*.pdll")
  install(DIRECTORY ${CMAKE_BINARY_DIR}/${folder}/ DESTINATION include/ztc/${folder} COMPONENT compiler
          FILES_MATCHING PATTERN "*.inc" PATTERN "*.h" PATTERN "*.def" PATTERN "CMakeFiles" EXCLUDE)
endforeach()
install(FILES ${CMAKE_BINARY_DIR}/install/ZtcConfig.cmake ${CMAKE_BINARY_DIR}/install/ZtcConfigVersion.cmake
              ${CMAKE_SOURCE_DIR}/compiler/Driver/PluginStamp.cpp.in
        DESTINATION lib/cmake/Ztc COMPONENT compiler)
# The guide to passes with its samples, and the pages that it leads to, in the folders in which their links find one another.
install(DIRECTORY ${CMAKE_SOURCE_DIR}/samples/passes DESTINATION share/ztc/samples COMPONENT compiler USE_SOURCE_PERMISSIONS)
file(GLOB_RECURSE pages CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/passes/*.md ${CMAKE_SOURCE_DIR}/compiler/*.md)
foreach(page ${pages})
  get_filename_component(folder ${page} DIRECTORY)
  install(FILES ${CMAKE_SOURCE_DIR}/${page} DESTINATION share/ztc/${folder} COMPONENT compiler)
endforeach()
# The reference of dialects and passes as a page.
find_program(ZTC_CMARK cmark-gfm)
if(ZTC_CMARK)
  file(GLOB references CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/compiler/Dialect/*/Ops.md ${CMAKE_SOURCE_DIR}/compiler/Conversion/Passes.md ${CMAKE_SOURCE_DIR}/passes/*/Passes.md)
  add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/reference.html
    COMMAND ${CMAKE_SOURCE_DIR}/compiler/reference_page.py ${CMAKE_BINARY_DIR}/reference.html
    DEPENDS ${references} ${CMAKE_SOURCE_DIR}/compiler/reference_page.py VERBATIM)
  add_custom_target(ztc_reference ALL DEPENDS ${CMAKE_BINARY_DIR}/reference.html)
  install(FILES ${CMAKE_BINARY_DIR}/reference.html DESTINATION share/doc/ztc COMPONENT compiler OPTIONAL)
endif()
