// The smallest application: describes a step and prints it.
#include <coconet/coconet.h>

#include <iostream>

int main() {
  coconet::Program p("average", coconet::Mesh({{"world", 2}}));
  auto n = p.dim("n");
  auto g = p.input("g", coconet::f32, {n}, coconet::local);
  p.output("avg", all_reduce(g, coconet::mean));
  std::cout << p.str() << '\n';
}
