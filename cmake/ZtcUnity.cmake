# Which files are compiled together where CMAKE_UNITY_BUILD is on: neighbours in a folder, never files of two folders. A file's headers take longer than
# the file, so a whole build takes a third of the time; who edits configures without. Names that are a file's own must differ within a folder.
#   ztc_unity_groups(TARGET MOST)      MOST: files that are compiled together, at most
function(ztc_unity_groups target most)
  get_target_property(sources ${target} SOURCES)
  set(folders)
  foreach(source ${sources})
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)
    cmake_path(GET source PARENT_PATH folder)
    string(MD5 key "${folder}")
    list(APPEND folders ${key})
    list(APPEND files_${key} ${source})
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(key ${folders})
    list(SORT files_${key})
    list(LENGTH files_${key} count)
    math(EXPR groups "(${count} + ${most} - 1) / ${most}")
    set(number 0)
    foreach(source ${files_${key}})
      math(EXPR group "${number} * ${groups} / ${count}") # of about the same size
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${key}_${group})
      math(EXPR number "${number} + 1")
    endforeach()
  endforeach()
  # Each pass has a DEBUG_TYPE of its own.
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP UNITY_BUILD_CODE_AFTER_INCLUDE "#undef DEBUG_TYPE")
endfunction()
