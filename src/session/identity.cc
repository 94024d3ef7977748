#include "session/identity.h"

#include <algorithm>
#include <optional>

namespace spillway {
namespace {

bool is_well_formed_id(std::string_view id) {
  return !id.empty() && id.size() <= 128 && std::ranges::all_of(id, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == ':' || c == '-';
  });
}

// "Bearer sk-..." -> "sk-..."; empty when there is none.
std::string_view bearer_key(const std::vector<HeaderField>& fields) {
  const std::string_view value = find_field(fields, "authorization").value_or("");
  constexpr std::string_view kScheme = "bearer ";
  if (value.size() <= kScheme.size() ||
      !equals_ignoring_case(value.substr(0, kScheme.size()), kScheme)) {
    return {};
  }
  return value.substr(kScheme.size());
}

}  // namespace

std::string random_hex(Rng& rng, std::size_t digits) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out(digits, '0');
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < digits; ++i, word >>= 4U) {
    if (i % 16 == 0) {
      word = rng.next();
    }
    out[i] = kDigits[word & 15U];
  }
  return out;
}

Identity anonymous(const RequestHead* head, Rng& rng) {
  Identity identity;
  const std::optional<std::string_view> id =
      head != nullptr ? find_field(head->fields, "x-request-id") : std::nullopt;
  identity.request_id =
      id && is_well_formed_id(*id) ? std::string(*id) : "req-" + random_hex(rng, 24);
  const auto parent = head != nullptr
                          ? parse_traceparent(find_field(head->fields, "traceparent").value_or(""))
                          : std::nullopt;
  identity.trace.trace_id = parent ? parent->trace_id : random_hex(rng, 32);
  identity.trace.sampled = !parent || parent->sampled;
  identity.parent_span_id = parent ? parent->span_id : "";
  identity.trace.span_id = random_hex(rng, 16);
  return identity;
}

std::optional<OpenAiError> classify(const RequestHead& head, const Config& config,
                                    Identity& identity) {
  if (const auto name = find_field(head.fields, "x-spillway-class")) {
    const auto named = qos_class_named(*name);
    if (!named) {
      return OpenAiError{
          .message = "x-spillway-class names no class; use critical, high or normal.",
          .param = "x-spillway-class",
          .code = "unknown_class"};
    }
    identity.qos_class = *named;
  }
  identity.tenant = "default";
  if (config.tenants.empty()) {
    return std::nullopt;
  }
  const std::string_view key = bearer_key(head.fields);
  for (const TenantConfig& tenant : config.tenants) {
    if (std::ranges::find(tenant.keys, key) != tenant.keys.end()) {
      identity.tenant = tenant.name;
      return std::nullopt;
    }
  }
  return OpenAiError{.status = 401,
                     .message = key.empty() ? "An API key is needed: Authorization: Bearer KEY."
                                            : "The API key is not known.",
                     .type = "authentication_error",
                     .code = "invalid_api_key"};
}

}  // namespace spillway
