# One library a folder; its DEPS are the layer rule. Sources are listed, never globbed.
function(spillway_library folder)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(spillway_${folder} STATIC ${ARG_SOURCES})
  target_link_libraries(spillway_${folder} PUBLIC spillway_flags ${ARG_DEPS})
endfunction()

# One test binary a folder; tests stand beside their source as *_test.cc.
function(spillway_test folder)
  add_executable(${folder}_test ${ARGN})
  target_link_libraries(${folder}_test PRIVATE spillway_${folder} GTest::gmock_main)
  target_compile_definitions(${folder}_test PRIVATE
    SPILLWAY_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  gtest_discover_tests(${folder}_test TEST_PREFIX ${folder}. DISCOVERY_TIMEOUT 60)
endfunction()
