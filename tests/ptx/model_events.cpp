// The events of threads, and what relates them whatever each read takes its value from.
#include <algorithm>

#include "ptx/model.h"

namespace coconet::test::ptx {

namespace {

bool is_access(const Event& event) {
  return event.kind == Event::Kind::read || event.kind == Event::Kind::write;
}

/// The orders of the read and of the write of an add or exchange.
Order of_read(Order order) {
  if (order == Order::acq_rel) return Order::acquire;
  return order == Order::release ? Order::relaxed : order;
}
Order of_write(Order order) {
  if (order == Order::acq_rel) return Order::release;
  return order == Order::acquire ? Order::relaxed : order;
}

}  // namespace

Model::Model(std::vector<Thread> threads, bool whole_lines)
    : threads_(std::move(threads)), whole_lines_(whole_lines) {
  std::set<int> locations;
  for (const Thread& thread : threads_) {
    for (const Op& op : thread.ops) {
      if (op.location >= 0) locations.insert(op.location);
      registers_ = std::max({registers_, op.result + 1, op.operand + 1});
    }
  }
  for (const int location : locations) {
    writes_[location].push_back(static_cast<int>(events_.size()));
    events_.push_back({.kind = Event::Kind::write, .location = location});
  }
  for (std::size_t t = 0; t < threads_.size(); ++t) {
    for (const Op& op : threads_[t].ops) add_events(static_cast<int>(t), op);
  }
  relate();
}

void Model::add_events(int thread, const Op& op) {
  using Kind = Event::Kind;
  const auto number = static_cast<int>(events_.size());
  first_event_[&op] = number;
  Event event{.thread = thread, .op = &op, .order = op.order, .location = op.location};
  const auto read = [&](Order order, int partner) {
    event.kind = Kind::read;
    event.order = order;
    event.partner = partner;
    reads_.push_back(static_cast<int>(events_.size()));
    events_.push_back(event);
  };
  const auto write = [&](Order order, int partner) {
    event.kind = Kind::write;
    event.order = order;
    event.partner = partner;
    writes_[op.location].push_back(static_cast<int>(events_.size()));
    events_.push_back(event);
  };
  switch (op.kind) {
    case Op::Kind::load:
      return read(op.order, -1);
    case Op::Kind::store:
      return write(op.order, -1);
    case Op::Kind::add:
    case Op::Kind::exchange:
      read(of_read(op.order), number + 1);
      return write(of_write(op.order), number);
    case Op::Kind::fence:
      event.kind = Kind::fence;
      if (op.order == Order::sc) sc_fences_.push_back(number);
      break;
    case Op::Kind::alias_fence:
      event.kind = Kind::alias_fence;
      alias_fences_.push_back(number);
      break;
    case Op::Kind::barrier:
      event.kind = Kind::barrier;
      break;
  }
  events_.push_back(event);
}

int Model::event(const Op& op, Event::Kind kind) const {
  const int first = first_event_.at(&op);
  return events_[first].kind == kind ? first : first + 1;
}

bool Model::is_strong(const Event& event) const {
  if (event.kind == Event::Kind::fence) return true;
  return is_access(event) && event.order != Order::weak;
}

bool Model::includes(const Event& event, int thread) const {
  const Thread& own = threads_[event.thread];
  const Thread& other = threads_[thread];
  switch (event.op->scope) {
    case Scope::sys:
      return true;
    case Scope::gpu:
      return own.gpu == other.gpu;
    case Scope::cta:
      return own.gpu == other.gpu && own.cta == other.cta;
  }
  return false;
}

bool Model::morally_strong(int a, int b) const {
  const Event& x = events_[a];
  const Event& y = events_[b];
  if (a == b || x.thread < 0 || y.thread < 0) return false;
  const bool in_scope =
      is_strong(x) && is_strong(y) && includes(x, y.thread) && includes(y, x.thread);
  if (x.thread != y.thread && !in_scope) return false;
  return !is_access(x) || !is_access(y) || x.op->address == y.op->address;
}

// What does not depend on the choice of an execution.
void Model::relate() {
  releases_.resize(events_.size());
  acquires_.resize(events_.size());
  std::map<int, std::vector<int>> barriers;
  std::vector<std::vector<int>> of_thread(threads_.size());
  for (std::size_t i = 0; i < events_.size(); ++i) {
    const auto event = static_cast<int>(i);
    if (events_[i].thread >= 0) of_thread[events_[i].thread].push_back(event);
    if (events_[i].kind == Event::Kind::barrier) barriers[events_[i].op->barrier].push_back(event);
    if (events_[i].kind == Event::Kind::read) reads_of_[events_[i].location].push_back(event);
  }
  for (const auto& [number, met] : barriers) {
    for (const int a : met) {
      for (const int b : met) order_.emplace_back(a, b);
    }
  }
  for (const std::vector<int>& events : of_thread) {
    for (std::size_t i = 0; i < events.size(); ++i) {
      if (i + 1 < events.size()) order_.emplace_back(events[i], events[i + 1]);
      for (std::size_t j = i; j < events.size(); ++j) find_patterns(events[i], events[j]);
    }
    if (events.empty()) continue;
    for (const auto& [location, writes] : writes_) order_.emplace_back(writes[0], events[0]);
  }
}

/// Release and acquire patterns that begin with `a` and end with `b`, which is the same or later in
/// the same thread.
void Model::find_patterns(int a, int b) {
  using Kind = Event::Kind;
  const Event& x = events_[a];
  const Event& y = events_[b];
  const auto is_fence = [](const Event& event, Order but) {
    return event.kind == Kind::fence && event.order != but;
  };
  const auto is = [](const Event& event, Kind kind, Order order) {
    return event.kind == kind && event.order == order;
  };
  const bool same = is_access(x) && is_access(y) && x.op->address == y.op->address;
  if (y.kind == Kind::write && is_strong(y) &&
      (is_fence(x, Order::acquire) || (same && is(x, Kind::write, Order::release))))
    releases_[b].push_back(a);
  if (x.kind == Kind::read && is_strong(x) &&
      (is_fence(y, Order::release) || (same && is(y, Kind::read, Order::acquire))))
    acquires_[a].push_back(b);
}

}  // namespace coconet::test::ptx
