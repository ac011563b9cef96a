cd /work/main; sed -i "s#/work/main#/work/main#" build/release/CMakeCache.txt; . /tmp/env.sh
rm -f build/release/tests/CMakeFiles/tests_headers.dir/*.gch
cmake --build --preset release -- -k 0 2>&1 | grep -E "error|FAILED|warning:|ninja:" | cut -c1-220
cmake --build --preset release -- -k 0 2>&1 | tail -1
date
