# GCC 12 destroys temporaries twice in coroutines: refuse it instead of shipping a broken binary.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  message(FATAL_ERROR "GCC ${CMAKE_CXX_COMPILER_VERSION} miscompiles coroutines. Use clang 19: cmake --preset dev")
endif()

set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

set(SPILLWAY_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize= takes them")
option(SPILLWAY_WERROR "Warnings are errors" OFF)
option(SPILLWAY_FUZZ "Build the fuzzers (needs clang)" OFF)

add_library(spillway_flags INTERFACE)
target_include_directories(spillway_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)
target_compile_definitions(spillway_flags INTERFACE SPILLWAY_VERSION="${PROJECT_VERSION}")
target_compile_options(spillway_flags INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wnon-virtual-dtor -Wold-style-cast
  -Wno-missing-designated-field-initializers  # option structs name what differs from the default
  -Werror=switch -Werror=unused-result
  -ffp-contract=off  # the same numbers on every machine: tests and the lab compare them bit for bit
  $<$<BOOL:${SPILLWAY_WERROR}>:-Werror>)
if(SPILLWAY_SANITIZE)
  target_compile_options(spillway_flags INTERFACE
    -fsanitize=${SPILLWAY_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(spillway_flags INTERFACE -fsanitize=${SPILLWAY_SANITIZE})
endif()
if(SPILLWAY_FUZZ)
  target_compile_options(spillway_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
