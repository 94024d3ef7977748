#pragma once
// Listening sockets that outlive the process that accepts on them: made by the supervisor, or by
// systemd (socket activation), and handed to the gateway, so that a restart refuses no connection.
// The protocol is sd_listen_fds(3): LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES, descriptors from 3 on.

#include <cstdint>
#include <map>
#include <string>

#include "base/result.h"

namespace spillway {

// A bound and listening socket, inherited by children. A taken port is an error that says so.
Result<int> open_listening_socket(const std::string& host, std::uint16_t port);

// The sockets this process was started with, by name; an unnamed one is called "callers", a second
// one "operators". Empty when there are none or they are meant for another process. Main thread,
// before others start.
std::map<std::string, int> inherited_sockets();

}  // namespace spillway
