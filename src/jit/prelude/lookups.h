// Prelude: what a tensor has at indices that are computed.

/// The element behind `from` of index `asked`, or of the nearest one that there is; 0 where another
/// rank has it.
template <class T>
DEVICE auto taken(const T* from, index_t asked, const Lookup& in) -> decltype(wide(*from)) {
  const index_t last = in.extent - 1;
  const index_t own = (asked < 0 ? 0 : asked > last ? last : asked) - in.first;
  if (own < 0 || own >= in.count) return decltype(wide(*from))(0);
  return wide(from[own * in.stride]);
}
