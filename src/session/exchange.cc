#include "session/exchange.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace spillway {

LocalAnswer error_answer(const OpenAiError& error, Outcome outcome) {
  return {
      .status = error.status, .body = to_json(error), .outcome = outcome, .error = error.message};
}

void append_retry_after(std::string& headers, Duration wait) {
  const double seconds = std::max(to_seconds(wait), 0.001);
  append_field(headers, "retry-after",
               std::to_string(static_cast<std::int64_t>(std::ceil(seconds))));
  append_field(headers, "retry-after-ms",
               std::to_string(static_cast<std::int64_t>(std::ceil(seconds * 1000))));
}

FoundRoute find_route(std::string_view method, std::string_view path) {
  struct Row {
    std::string_view path;
    std::string_view method;
    Route route;
  };
  static constexpr std::array<Row, 18> kRows = {{
      {"/v1/chat/completions", "POST", Route::kChat},
      {"/v1/completions", "POST", Route::kCompletions},
      {"/v1/models", "GET", Route::kModels},
      {"/livez", "GET", Route::kLive},
      {"/readyz", "GET", Route::kReady},
      {"/health", "GET", Route::kReady},  // what tools written for engines ask
      {"/v1/embeddings", "POST", Route::kForward},
      {"/v1/responses", "POST", Route::kForward},
      {"/v1/rerank", "POST", Route::kForward},
      {"/v2/rerank", "POST", Route::kForward},
      {"/rerank", "POST", Route::kForward},
      {"/v1/score", "POST", Route::kForward},
      {"/score", "POST", Route::kForward},
      {"/v1/audio/speech", "POST", Route::kForward},
      {"/tokenize", "POST", Route::kForward},
      {"/detokenize", "POST", Route::kForward},
      {"/v1/audio/transcriptions", "POST", Route::kUpload},
      {"/v1/audio/translations", "POST", Route::kUpload},
  }};
  for (const Row& row : kRows) {
    if (row.path == path) {
      return row.method == method ? FoundRoute{row.route, row.path}
                                  : FoundRoute{Route::kWrongMethod};
    }
  }
  constexpr std::string_view kModel = "/v1/models/";
  if (path.starts_with(kModel) && path.size() > kModel.size()) {
    return method == "GET" ? FoundRoute{Route::kModel, "/v1/models/{model}"}
                           : FoundRoute{Route::kWrongMethod};
  }
  return {};
}

}  // namespace spillway
