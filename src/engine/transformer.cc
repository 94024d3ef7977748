#include "engine/transformer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"

namespace spillway {
namespace {

// Fewer rows than these are not worth waking the others for.
constexpr std::size_t kRowsToShare = 4;

std::size_t widest(const LlamaShape& shape) {
  return std::max({shape.width, shape.hidden, shape.query_width()});
}

// Weight rows of one chunk: small enough to balance, large enough to be worth a claim.
std::size_t chunk_rows(std::size_t rows, std::size_t threads) {
  constexpr std::size_t kMost = 1024;
  const std::size_t wanted = rows / (8 * threads) / kWeightRowsAtOnce * kWeightRowsAtOnce;
  return std::clamp(wanted, kWeightRowsAtOnce, kMost);
}

}  // namespace

Transformer::Transformer(const Parts& parts, const Bounds& bounds)
    : parts_(parts),
      bounds_(bounds),
      stream_(bounds.rows * parts.shape.width),
      normed_(bounds.rows, parts.shape.width),
      attended_(bounds.rows, parts.shape.query_width()),
      hidden_(bounds.rows, parts.shape.hidden),
      last_(bounds.logits, parts.shape.width),
      query_(bounds.rows * parts.shape.query_width()),
      key_(bounds.rows * parts.shape.kv_width()),
      value_(bounds.rows * parts.shape.kv_width()),
      up_(bounds.rows * parts.shape.hidden),
      logits_(bounds.logits * parts.shape.vocabulary),
      cosines_(bounds.rows * parts.shape.head_dim / 2),
      sines_(bounds.rows * parts.shape.head_dim / 2),
      page_lists_(bounds.rows),
      scratch_(parts.workers.size(), KernelScratch(widest(parts.shape))),
      halves_(2 * bounds.rows * parts.shape.kv_width()) {
  const std::size_t slots = (bounds.context + kPageSlots - 1) / kPageSlots * kPageSlots;
  scores_.assign(parts.workers.size(), std::vector<float>(kMaxHeadsAtOnce * slots));
  const auto& divisors = parts.weights.rope_divisors;
  for (std::size_t j = 0; j < parts.shape.head_dim / 2; ++j) {
    const double share = 2.0 * static_cast<double>(j) / static_cast<double>(parts.shape.head_dim);
    const double divisor = divisors.empty() ? 1.0 : static_cast<double>(divisors[j]);
    frequencies_.push_back(std::pow(parts.shape.rope_base, -share) / divisor);
  }
}

std::span<const float> Transformer::logits(std::size_t n) const {
  const std::size_t size = parts_.shape.vocabulary;
  return std::span(logits_).subspan(n * size, size);
}

void Transformer::run(std::span<const BatchRow> rows) {
  CHECK(rows.size() <= bounds_.rows);
  prepare(rows);
  for (std::size_t l = 0; l < parts_.weights.layers.size(); ++l) {
    attention_part(rows, l);
    feed_forward_part(parts_.weights.layers[l]);
  }
  compute_logits(rows);
}

template <class Body>
void Transformer::for_each_row(std::size_t rows, Body&& body) {
  if (rows < kRowsToShare) {
    for (std::size_t r = 0; r < rows; ++r) {
      body(r, std::size_t{0});
    }
    return;
  }
  parts_.workers.run(rows, body);
}

void Transformer::prepare(std::span<const BatchRow> rows) {
  rows_ = rows.size();
  normed_.reshape(rows_, parts_.shape.width);
  attended_.reshape(rows_, parts_.shape.query_width());
  hidden_.reshape(rows_, parts_.shape.hidden);
  // A head a chunk where there are few rows, else all that share their keys.
  const std::size_t group = parts_.shape.heads / parts_.shape.kv_heads;
  const bool few = rows_ * parts_.shape.kv_heads < 4 * parts_.workers.size();
  heads_at_once_ = few ? 1 : std::min(group, kMaxHeadsAtOnce);
  const std::size_t half = parts_.shape.head_dim / 2;
  for_each_row(rows_, [&](std::size_t r, std::size_t worker) {
    parts_.kernels.dequantise_row(parts_.weights.embedding, static_cast<std::size_t>(rows[r].token),
                                  stream_.data() + r * parts_.shape.width, scratch_[worker]);
    for (std::size_t j = 0; j < half; ++j) {
      const double angle = static_cast<double>(rows[r].position) * frequencies_[j];
      cosines_[r * half + j] = static_cast<float>(std::cos(angle));
      sines_[r * half + j] = static_cast<float>(std::sin(angle));
    }
  });
}

void Transformer::multiply(std::span<const Product> products, const Activations& x) {
  const std::size_t threads = parts_.workers.size();
  std::array<std::size_t, 4> chunks{};
  std::size_t total = 0;
  for (std::size_t p = 0; p < products.size(); ++p) {
    const std::size_t rows = products[p].weights->rows;
    chunks[p] = (rows + chunk_rows(rows, threads) - 1) / chunk_rows(rows, threads);
    total += chunks[p];
  }
  parts_.workers.run(total, [&](std::size_t chunk, std::size_t worker) {
    std::size_t p = 0;
    while (chunk >= chunks[p]) {
      chunk -= chunks[p];
      ++p;
    }
    const std::size_t rows = products[p].weights->rows;
    const std::size_t step = chunk_rows(rows, threads);
    parts_.kernels.multiply({.weights = products[p].weights,
                             .x = &x,
                             .begin = chunk * step,
                             .end = std::min(rows, (chunk + 1) * step),
                             .out = products[p].out,
                             .out_stride = rows,
                             .add = products[p].add},
                            scratch_[worker]);
  });
}

void Transformer::normalise_rows(const std::vector<float>& weight) {
  const std::size_t width = parts_.shape.width;
  for_each_row(rows_, [&](std::size_t r, std::size_t) {
    parts_.kernels.normalise({.x = stream_.data() + r * width,
                              .weight = weight.data(),
                              .size = width,
                              .epsilon = parts_.shape.epsilon,
                              .out = normed_.row(r)});
    parts_.kernels.quantise_row(normed_, r);
  });
}

void Transformer::attention_part(std::span<const BatchRow> rows, std::size_t layer) {
  const LlamaLayer& weights = parts_.weights.layers[layer];
  normalise_rows(weights.attention_norm);
  const std::array<Product, 3> inward{{{.weights = &weights.query, .out = query_.data()},
                                       {.weights = &weights.key, .out = key_.data()},
                                       {.weights = &weights.value, .out = value_.data()}}};
  multiply(inward, normed_);
  clear_new_pages(rows, layer);
  for_each_row(rows_, [&](std::size_t r, std::size_t) { store_keys(rows[r], r, layer); });
  list_pages(rows, layer);
  attend(rows);
  for_each_row(rows_,
               [&](std::size_t r, std::size_t) { parts_.kernels.quantise_row(attended_, r); });
  const std::array<Product, 1> outward{
      {{.weights = &weights.output, .out = stream_.data(), .add = true}}};
  multiply(outward, attended_);
}

// Adjacent pairs turn by the row's angles (Su et al., 2021; llama's order in GGUF files).
void Transformer::rotate(float* head, std::size_t row) const {
  const std::size_t half = parts_.shape.head_dim / 2;
  const float* cosines = cosines_.data() + row * half;
  const float* sines = sines_.data() + row * half;
  for (std::size_t j = 0; j < half; ++j) {
    const float x = head[2 * j];
    const float y = head[2 * j + 1];
    head[2 * j] = x * cosines[j] - y * sines[j];
    head[2 * j + 1] = x * sines[j] + y * cosines[j];
  }
}

// Before any row is stored: rows of one page are stored at the same time.
void Transformer::clear_new_pages(std::span<const BatchRow> rows, std::size_t layer) {
  for (const BatchRow& row : rows) {
    const LayerPages& table = row.cache->layers[layer];
    const std::size_t slot = table.used - row.from_end;
    if (slot % kPageSlots == 0) {
      parts_.arena.clear(table.pages[slot / kPageSlots]);
    }
  }
}

void Transformer::store_keys(const BatchRow& row, std::size_t index, std::size_t layer) {
  const LlamaShape& shape = parts_.shape;
  for (std::size_t head = 0; head < shape.heads; ++head) {
    rotate(query_.data() + index * shape.query_width() + head * shape.head_dim, index);
  }
  float* keys = key_.data() + index * shape.kv_width();
  for (std::size_t head = 0; head < shape.kv_heads; ++head) {
    rotate(keys + head * shape.head_dim, index);
  }
  std::uint16_t* key_halves = halves_.data() + 2 * index * shape.kv_width();
  std::uint16_t* value_halves = key_halves + shape.kv_width();
  parts_.kernels.to_halves(keys, key_halves, shape.kv_width());
  parts_.kernels.to_halves(value_.data() + index * shape.kv_width(), value_halves,
                           shape.kv_width());
  const LayerPages& table = row.cache->layers[layer];
  const std::size_t slot = table.used - row.from_end;
  parts_.arena.write(table.pages[slot / kPageSlots], slot % kPageSlots, key_halves, value_halves);
}

void Transformer::list_pages(std::span<const BatchRow> rows, std::size_t layer) {
  pages_.clear();
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (r > 0 && rows[r].cache == rows[r - 1].cache) {
      page_lists_[r] = page_lists_[r - 1];
      continue;
    }
    const LayerPages& table = rows[r].cache->layers[layer];
    page_lists_[r] = {.first = pages_.size(), .count = table.pages.size(), .used = table.used};
    for (std::size_t head = 0; head < parts_.shape.kv_heads; ++head) {
      for (const PageId page : table.pages) {
        pages_.push_back({.keys = parts_.arena.keys(page, head),
                          .values = parts_.arena.values(page, head),
                          .positions = parts_.pool.positions(page).data()});
      }
    }
  }
}

void Transformer::attend(std::span<const BatchRow> rows) {
  const std::size_t group = parts_.shape.heads / parts_.shape.kv_heads;
  const std::size_t chunks_a_group = (group + heads_at_once_ - 1) / heads_at_once_;
  const std::size_t chunks_a_row = chunks_a_group * parts_.shape.kv_heads;
  parts_.workers.run(rows.size() * chunks_a_row, [&](std::size_t chunk, std::size_t worker) {
    const std::size_t r = chunk / chunks_a_row;
    const std::size_t kv_head = chunk % chunks_a_row / chunks_a_group;
    const std::size_t first = kv_head * group + chunk % chunks_a_group * heads_at_once_;
    attend_heads(rows[r], r, first, worker);
  });
}

void Transformer::attend_heads(const BatchRow& row, std::size_t index, std::size_t first_head,
                               std::size_t worker) {
  const std::size_t group = parts_.shape.heads / parts_.shape.kv_heads;
  const std::size_t kv_head = first_head / group;
  const PageList& list = page_lists_[index];
  // What stands behind the row's own slot is later, and would be masked anyway.
  const std::size_t slots = list.used - row.from_end + 1;
  const std::size_t seen = (slots + kPageSlots - 1) / kPageSlots;
  const std::size_t at = first_head * parts_.shape.head_dim;
  parts_.kernels.attend(
      {.pages = std::span(pages_).subspan(list.first + kv_head * list.count, seen),
       .position = row.position,
       .heads = std::min(heads_at_once_, (kv_head + 1) * group - first_head),
       .head_dim = parts_.shape.head_dim,
       .query = query_.data() + index * parts_.shape.query_width() + at,
       .scores = scores_[worker].data(),
       .out = attended_.row(index) + at});
}

void Transformer::feed_forward_part(const LlamaLayer& layer) {
  normalise_rows(layer.ffn_norm);
  const std::array<Product, 2> inward{
      {{.weights = &layer.gate, .out = hidden_.row(0)}, {.weights = &layer.up, .out = up_.data()}}};
  multiply(inward, normed_);
  const std::size_t hidden = parts_.shape.hidden;
  for_each_row(rows_, [&](std::size_t r, std::size_t) {
    parts_.kernels.gated_silu(hidden_.row(r), up_.data() + r * hidden, hidden);
    parts_.kernels.quantise_row(hidden_, r);
  });
  const std::array<Product, 1> outward{
      {{.weights = &layer.down, .out = stream_.data(), .add = true}}};
  multiply(outward, hidden_);
}

void Transformer::compute_logits(std::span<const BatchRow> rows) {
  const std::size_t width = parts_.shape.width;
  const auto wanted = std::ranges::count_if(rows, &BatchRow::wants_logits);
  CHECK(static_cast<std::size_t>(wanted) <= bounds_.logits);
  if (wanted == 0) {
    return;
  }
  last_.reshape(static_cast<std::size_t>(wanted), width);
  std::size_t n = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (!rows[r].wants_logits) {
      continue;
    }
    parts_.kernels.normalise({.x = stream_.data() + r * width,
                              .weight = parts_.weights.output_norm.data(),
                              .size = width,
                              .epsilon = parts_.shape.epsilon,
                              .out = last_.row(n)});
    parts_.kernels.quantise_row(last_, n);
    ++n;
  }
  const std::array<Product, 1> products{
      {{.weights = &parts_.weights.output, .out = logits_.data()}}};
  multiply(products, last_);
}

}  // namespace spillway
