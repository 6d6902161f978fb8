package confine

import (
	"flag"
	"go/parser"
	"go/token"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

var update = flag.Bool("update", false, "write the golden files anew")

// filter compiles a filter that exists.
func filter(name string, o FilterOptions) []byte {
	data, err := Filter(name, o)
	if err != nil {
		panic(err)
	}
	return data
}

// scopes are everybody whom a filter can be for.
func scopes() map[string]scope {
	all := map[string]scope{"agent": agent}
	for name, p := range map[string]scope{ProfileDefault: byDefault, ProfileStrict: strict, ProfileDebug: debug} {
		all[name] = p
		all[name+", no namespaces"] = p | noNamespaces
		all[name+", no network"] = p | noNetwork
		all[name+", neither"] = p | noNamespaces | noNetwork
	}
	return all
}

// TestRules compares what the filters deny with the lists under testdata.
func TestRules(t *testing.T) {
	for file, o := range map[string]FilterOptions{
		"default": {}, "strict": {Profile: ProfileStrict}, "debug": {Profile: ProfileDebug},
		"landlock": {NoNamespaces: true, NoNetwork: true},
	} {
		t.Run(file, func(t *testing.T) {
			rules, err := Rules(FilterCommands, o)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for _, r := range rules {
				got.WriteString(r.String() + "\n")
			}
			golden(t, "rules_"+file+".txt", got.String())
		})
	}
	rules, err := Rules(FilterAgent, FilterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rules {
		if !r.Agent {
			t.Errorf("the agent's filter has a rule that does not bind it: %s", r)
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("this is another than %s (go test -update writes it anew):\n%s", file, diff)
	}
}

// Every rule is whole, and names calls that exist.
func TestRulesAreWhole(t *testing.T) {
	known := map[string]bool{}
	for _, c := range calls {
		if known[c.name] {
			t.Errorf("%s is there twice", c.name)
		}
		known[c.name] = true
	}
	for _, r := range rules() {
		if r.why == "" || r.group == "" || r.errno == 0 || r.who == 0 || len(r.calls) == 0 {
			t.Errorf("an incomplete rule: %+v", r)
		}
		for _, name := range r.calls {
			if !known[name] {
				t.Errorf("there is no call %s", name)
			}
		}
		for _, c := range r.when {
			if c.arg < 0 || c.arg > 5 || c.name == "" || c.test != nonZero && len(c.values) == 0 {
				t.Errorf("an incomplete condition: %+v", c)
			}
		}
	}
}

func TestUnknownFilters(t *testing.T) {
	for name, o := range map[string]FilterOptions{"": {}, "Commands": {}, FilterCommands: {Profile: "Strict"}} {
		if _, err := Filter(name, o); err == nil {
			t.Errorf("%q %v: there is a filter", name, o)
		}
		if _, err := Rules(name, o); err == nil {
			t.Errorf("%q %v: there are rules", name, o)
		}
	}
	for _, p := range Profiles() {
		if _, err := Filter(FilterCommands, FilterOptions{Profile: p}); err != nil {
			t.Error(err)
		}
	}
}

// TestCallNumbers compares the table with the one that package unix was made
// with. A call that is missing here is new: is it to be allowed?
func TestCallNumbers(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys").Output()
	if err != nil {
		t.Fatal(err)
	}
	for goarch, a := range archs {
		want := numbers(t, filepath.Join(strings.TrimSpace(string(out)), "unix", "zsysnum_linux_"+goarch+".go"))
		delete(want, "arch_specific_syscall") // where numbers begin that arm64 does not use
		got := map[string]int{}
		for _, c := range calls {
			if nr := a.number(c); nr != none {
				got[c.name] = nr
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s has other calls:\n%s", goarch, diff)
		}
		if top := slices.Max(slices.Collect(maps.Values(want))); top > highest {
			t.Errorf("%s: the highest number is %d", goarch, top)
		}
	}
}

var sysConst = regexp.MustCompile(`\bSYS_(\w+)\s*=\s*(\d+)`)

func numbers(t *testing.T, file string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.ParseFile(token.NewFileSet(), file, text, 0); err != nil {
		t.Fatal(err)
	}
	all := map[string]int{}
	for _, m := range sysConst.FindAllSubmatch(text, -1) {
		nr, err := strconv.Atoi(string(m[2]))
		if err != nil {
			t.Fatal(err)
		}
		all[strings.ToLower(string(m[1]))] = nr
	}
	return all
}

// holds is what a condition means.
func (c cond) holds(args [6]uint64) bool {
	wide, low := args[c.arg], uint32(args[c.arg])
	if c.mask != 0 {
		low &= c.mask
	}
	listed := slices.ContainsFunc(c.values, func(v value) bool { return v.n == low })
	switch c.test {
	case anyBit:
		return low&c.bits() != 0
	case otherBit:
		return wide&^uint64(c.bits()) != 0
	case oneOf:
		return listed
	case noneOf:
		return !listed
	default:
		return wide != 0
	}
}

// meaning is the rules that bind somebody, by the number that they are about.
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

// evaluate is what the rules mean for one call.
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
	for name, who := range map[string]scope{FilterAgent: agent, FilterCommands: strict | noNamespaces} {
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
