//go:build linux

// Bench measures Paddock beside its peers and prints, for every promise of
// SPEC.md that is a speed, a size or an amount of memory, the number, the
// limit and whether it holds.
//
//	make bench                          everything
//	make bench BENCH_SHORT=1            fewer rounds, under a minute
//	make bench BENCHARGS="-run cold"    the measurements whose name matches
//	make bench BENCHARGS="-json FILE"   the numbers for a program as well
//
// Paddock and its peers run in turn within each round, so that whatever else
// happens on the machine happens to all of them. Each single run is checked,
// its exit status and its output: a wrong result is reported, and the exit
// status is then 1. A number beyond its limit is reported too, and is no
// failure: the machine may be a slow or a busy one. A peer that is not
// installed is printed as not measured.
//
// Only files below a temporary directory are written, and below another one in /home, or in
// the caller's home, where the projects of test/projects are. crun and runc keep
// their state there as well; runc, which cannot do without, also makes and
// removes a cgroup of its own for each run.
package main
