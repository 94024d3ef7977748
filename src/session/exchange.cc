#include "session/exchange.h"

#include <array>

namespace spillway {

LocalAnswer error_answer(const OpenAiError& error, Outcome outcome) {
  return {
      .status = error.status, .body = to_json(error), .outcome = outcome, .error = error.message};
}

Route find_route(std::string_view method, std::string_view path) {
  struct Row {
    std::string_view path;
    std::string_view method;
    Route route;
  };
  static constexpr std::array<Row, 5> kRows = {{
      {"/v1/chat/completions", "POST", Route::kChat},
      {"/v1/completions", "POST", Route::kCompletions},
      {"/v1/models", "GET", Route::kModels},
      {"/livez", "GET", Route::kLive},
      {"/readyz", "GET", Route::kReady},
  }};
  for (const Row& row : kRows) {
    if (row.path == path) {
      return row.method == method ? row.route : Route::kWrongMethod;
    }
  }
  return Route::kUnknown;
}

std::string_view name_of(Route route) {
  switch (route) {
    case Route::kChat:
      return "/v1/chat/completions";
    case Route::kCompletions:
      return "/v1/completions";
    case Route::kModels:
      return "/v1/models";
    case Route::kLive:
      return "/livez";
    case Route::kReady:
      return "/readyz";
    case Route::kUnknown:
    case Route::kWrongMethod:
      return "other";
  }
  return "other";
}

}  // namespace spillway
