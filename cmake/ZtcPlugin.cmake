# What a plugin builds against: a hash of the public headers, the package of the build tree, and `cmake --install`.
#   find_package(Ztc REQUIRED)                # -DZtc_DIR=BUILD/lib/cmake/Ztc, or an installed <prefix>/lib/cmake/Ztc
#   ztc_add_plugin(LayerCosts LayerCosts.cpp)
include(CMakePackageConfigHelpers)

# Public are the headers and definitions that a pass, an op or a hook may include, by their path in the repository.
set(ztc_public_folders compiler passes runtime/Core runtime/Format runtime/Memory)
set(ztc_public_folders ${ztc_public_folders} PARENT_SCOPE) # for ZtcInstall
set(public_patterns)
foreach(folder ${ztc_public_folders})
  list(APPEND public_patterns ${CMAKE_SOURCE_DIR}/${folder}/*.h ${CMAKE_SOURCE_DIR}/${folder}/*.td ${CMAKE_SOURCE_DIR}/${folder}/*.def)
endforeach()
file(GLOB_RECURSE ztc_public_headers CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${public_patterns})
set(public_hash ${CMAKE_BINARY_DIR}/compiler/Driver/PublicHeaders.inc)
list(TRANSFORM ztc_public_headers PREPEND ${CMAKE_SOURCE_DIR}/ OUTPUT_VARIABLE public_files)
list(JOIN ztc_public_headers "\n" public_list)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/public-headers.txt CONTENT "${public_list}\n")
add_custom_command(OUTPUT ${public_hash}
  COMMAND ${CMAKE_COMMAND} -DROOT=${CMAKE_SOURCE_DIR} -DLIST=${CMAKE_BINARY_DIR}/public-headers.txt -DOUTPUT=${public_hash}
          -P ${CMAKE_SOURCE_DIR}/cmake/HashHeaders.cmake
  DEPENDS ${public_files} ${CMAKE_BINARY_DIR}/public-headers.txt ${CMAKE_SOURCE_DIR}/cmake/HashHeaders.cmake
  VERBATIM)
add_custom_target(ztc_public_headers DEPENDS ${public_hash})

# The package, once for the build tree and once for where it is installed.
set(ZTC_PACKAGE_INCLUDES ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
set(ZTC_PACKAGE_LIBRARY ${CMAKE_BINARY_DIR}/lib/libZtc.so)
set(ZTC_PACKAGE_STAMP ${CMAKE_SOURCE_DIR}/compiler/Driver/PluginStamp.cpp.in)
set(ZTC_PACKAGE_PROGRAMS ${CMAKE_BINARY_DIR}/bin)
configure_file(${CMAKE_SOURCE_DIR}/cmake/ZtcConfig.cmake.in ${CMAKE_BINARY_DIR}/lib/cmake/Ztc/ZtcConfig.cmake @ONLY)
set(ZTC_PACKAGE_INCLUDES "\${CMAKE_CURRENT_LIST_DIR}/../../../include/ztc")
set(ZTC_PACKAGE_LIBRARY "\${CMAKE_CURRENT_LIST_DIR}/../../libZtc.so")
set(ZTC_PACKAGE_STAMP "\${CMAKE_CURRENT_LIST_DIR}/PluginStamp.cpp.in")
set(ZTC_PACKAGE_PROGRAMS "\${CMAKE_CURRENT_LIST_DIR}/../../../bin")
configure_file(${CMAKE_SOURCE_DIR}/cmake/ZtcConfig.cmake.in ${CMAKE_BINARY_DIR}/install/ZtcConfig.cmake @ONLY)
foreach(folder lib/cmake/Ztc install)
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/${folder}/ZtcConfigVersion.cmake COMPATIBILITY SameMinorVersion)
endforeach()
