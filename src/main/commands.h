#pragma once
// The subcommands. Each adds its flags to the app and, when chosen, runs and sets the exit code: 0
// done, 1 a finding, 2 a wrong call.

namespace CLI {
class App;
}

namespace spillway {

void add_serve_command(CLI::App& app, int& exit_code);
void add_gateway_command(CLI::App& app, int& exit_code);
void add_engine_command(CLI::App& app, int& exit_code);
void add_check_command(CLI::App& app, int& exit_code);
void add_load_command(CLI::App& app, int& exit_code);

}  // namespace spillway
