// spillway: one binary, one file a subcommand. Flags and wiring, nothing else.
#include <cstdio>

#include <CLI/CLI.hpp>

#include "main/commands.h"

int main(int argc, char** argv) {
  CLI::App app{
      "Spillway keeps LLM inference services standing: a gateway that degrades in small steps "
      "before it refuses."};
  app.name("spillway");
  app.require_subcommand(1);
  app.set_version_flag("--version", "spillway " SPILLWAY_VERSION);
  int exit_code = 0;
  spillway::add_serve_command(app, exit_code);
  spillway::add_gateway_command(app, exit_code);
  spillway::add_engine_command(app, exit_code);
  spillway::add_check_command(app, exit_code);
  spillway::add_load_command(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;  // 0: help or version; 2: a wrong call
  }
  return exit_code;
}
