# Debian packages of these are listed in tools/packages.txt.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)            # formatting
find_package(simdjson REQUIRED)       # reads requests and replies in place
find_package(nlohmann_json REQUIRED)  # every other JSON
find_package(yaml-cpp REQUIRED)       # configuration and policy files
find_package(Boost 1.81 REQUIRED)     # Asio: sockets, timers
find_package(CLI11 REQUIRED)          # flags
find_package(OpenSSL REQUIRED)        # TLS, SHA-256
find_package(GTest REQUIRED)
include(GoogleTest)
enable_testing()

# Asio is compiled once, in src/net/asio.cc; every other file sees declarations only.
add_library(spillway_asio INTERFACE)
target_link_libraries(spillway_asio INTERFACE Boost::headers Threads::Threads)
target_compile_definitions(spillway_asio INTERFACE
  BOOST_ASIO_SEPARATE_COMPILATION BOOST_ASIO_NO_DEPRECATED BOOST_ASIO_HAS_STD_INVOKE_RESULT)
