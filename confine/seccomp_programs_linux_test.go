package confine

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// meaning holds the rules of a scope, by the call numbers that they apply to.
// A number of no call has no entry.
type meaning map[uint32][]rule

func (a arch) meaning(who scope) meaning {
	m := meaning{}
	for _, c := range calls {
		nr := a.number(c)
		if nr == none {
			continue
		}
		m[uint32(nr)] = []rule{}
		for _, r := range rules() {
			if r.who&who != 0 && slices.Contains(r.calls, c.name) {
				m[uint32(nr)] = append(m[uint32(nr)], r)
			}
		}
	}
	return m
}

// evaluate returns what the rules mean for one call.
func (m meaning) evaluate(nr uint32, args [6]uint64) uint32 {
	about, ok := m[nr]
	if !ok {
		return retErrno | uint32(unix.ENOSYS)
	}
	for _, r := range about {
		if !slices.ContainsFunc(r.when, func(c cond) bool { return !c.holds(args) }) {
			return retErrno | uint32(r.errno)
		}
	}
	return retAllow
}

// samples makes arguments near the values that the rules look for.
func (m meaning) samples(nr uint32, random *rand.Rand) [][6]uint64 {
	var pools [6][]uint64
	several := 0
	for _, r := range m[nr] {
		for _, c := range r.when {
			several = 200
			for _, v := range c.values {
				n := uint64(v.n)
				pools[c.arg] = append(pools[c.arg], n, n+1, n|garbage, n<<4, n|0o755, n|unix.SOCK_CLOEXEC)
			}
		}
	}
	all := [][6]uint64{{}, {1, 1, 1, 1, 1, 1}, {garbage, garbage, garbage, garbage, garbage, garbage}}
	for range several {
		var args [6]uint64
		for i, pool := range pools {
			pool = append(pool, 0, 1, ^uint64(0), 1<<32, random.Uint64())
			args[i] = pool[random.IntN(len(pool))]
		}
		all = append(all, args)
	}
	return all
}

// TestPrograms compares the compiled filters with what the rules mean, on
// both architectures, for all numbers and many arguments.
func TestPrograms(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for goarch, a := range archs {
		for name, who := range scopes() {
			means, prog := a.meaning(who), a.compile(who)
			longest, verdicts := 0, map[uint32]int{}
			for nr := range uint32(1001) {
				for _, args := range means.samples(nr, random) {
					got, n, err := steps(prog, a.audit, nr, args)
					if want := means.evaluate(nr, args); err != nil || got != want {
						t.Fatalf("%s, %s: call %d with %#x: %#x, %v, want %#x", goarch, name, nr, args, got, err, want)
					}
					longest = max(longest, n)
					verdicts[got]++
				}
			}
			if len(verdicts) < 5 {
				t.Errorf("%s, %s: the samples had the answers %v only", goarch, name, verdicts)
			}
			if longest > 60 || len(prog) > maxProgram {
				t.Errorf("%s, %s: %d of %d instructions are executed for a call", goarch, name, longest, len(prog))
			}
			t.Logf("%s, %s: %d instructions, at most %d for a call", goarch, name, len(prog), longest)
		}
	}
}

// What a plan carries is the program for this architecture.
func TestFilter(t *testing.T) {
	o := FilterOptions{Profile: ProfileStrict, NoNamespaces: true}
	for name, who := range map[string]scope{FilterAgent: forAgent, FilterCommands: forStrict | forNoNamespaces} {
		if !slices.Equal(decode(t, filter(name, o)), archs[runtime.GOARCH].compile(who)) {
			t.Errorf("the filter %s is another one", name)
		}
	}
}

// Other architectures' numbers are refused whatever they mean, and those of
// x32, which share this architecture's value.
func TestForeignNumbers(t *testing.T) {
	for goarch, a := range archs {
		for name, who := range scopes() {
			prog := a.compile(who)
			for _, foreign := range []uint32{unix.AUDIT_ARCH_I386, unix.AUDIT_ARCH_ARM, unix.AUDIT_ARCH_X86_64, unix.AUDIT_ARCH_AARCH64, unix.AUDIT_ARCH_RISCV64, 0} {
				for nr := range uint32(600) {
					got, err := interpret(prog, foreign, nr, [6]uint64{})
					if foreign != a.audit && (err != nil || got != retErrno|uint32(unix.ENOSYS)) {
						t.Fatalf("%s, %s: architecture %#x, call %d: %#x, %v", goarch, name, foreign, nr, got, err)
					}
				}
			}
			const x32 = 0x40000000
			for _, nr := range []uint32{x32, x32 | unix.SYS_GETPID, x32 | 547, highest + 1, ^uint32(0), 1 << 31} {
				if got, err := interpret(prog, a.audit, nr, [6]uint64{}); err != nil || got != retErrno|uint32(unix.ENOSYS) {
					t.Errorf("%s, %s: call %#x: %#x, %v", goarch, name, nr, got, err)
				}
			}
		}
	}
}
