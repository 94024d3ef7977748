// Replies and chunks: reading never fails and depends on nothing but the text; the chunks that end
// a stream early are made from any chunk.
#include "base/check.h"
#include "fuzz/cuts.h"
#include "wire/openai_reply.h"
#include "wire/retry_after.h"
#include "wire/trace_context.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spillway;
  static ReplyReader reader;
  const std::string_view input = as_text(data, size);
  const ReplyFacts first = reader.read(input);
  (void)reader.read("{}");
  const ReplyFacts second = reader.read(input);
  CHECK(first.is_json == second.is_json && first.has_content == second.has_content &&
        first.finish_reason == second.finish_reason && first.is_error == second.is_error);
  CHECK(first.is_json || (!first.has_content && !first.is_error && !first.usage));
  CHECK(!first.usage || (first.usage->prompt_tokens >= 0 && first.usage->completion_tokens >= 0));
  const std::string end = length_chunk(input, 2);
  if (!end.empty()) {
    const ReplyFacts facts = reader.read(end);
    CHECK(facts.is_json && facts.finish_reason == "length" && !facts.has_content);
  }
  const std::string usage = usage_chunk_like(input, {.prompt_tokens = 3, .completion_tokens = 4});
  CHECK(usage.empty() || reader.read(usage).usage->completion_tokens == 4);
  const WallTime now(std::chrono::sys_days(std::chrono::year(2026) / 12 / 1));
  const auto rest = retry_after_of({{"Retry-After", input}}, now);
  CHECK(!rest || *rest >= Duration{});
  if (const auto trace = parse_traceparent(input)) {
    CHECK(parse_traceparent(to_traceparent(*trace))->trace_id == trace->trace_id);
  }
  return 0;
}
