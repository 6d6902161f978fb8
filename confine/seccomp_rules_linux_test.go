package confine

import (
	"flag"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
	all := map[string]scope{"agent": forAgent}
	for name, p := range map[string]scope{ProfileDefault: forDefault, ProfileStrict: forStrict, ProfileDebug: forDebug} {
		all[name] = p
		all[name+", no namespaces"] = p | forNoNamespaces
		all[name+", no network"] = p | forNoNetwork
		all[name+", neither"] = p | forNoNamespaces | forNoNetwork
	}
	return all
}

// TestRules compares what the filters deny with the lists under testdata.
func TestRules(t *testing.T) {
	for file, o := range map[string]FilterOptions{
		"default": {}, "strict": {Profile: ProfileStrict}, "debug": {Profile: ProfileDebug},
		"landlock": {NoNamespaces: true, NoNetwork: true}, "listed": {Listed: true},
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
// with. A call that is missing here is new: decide whether to allow it.
func TestCallNumbers(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys").Output()
	if err != nil {
		t.Fatal(err)
	}
	for goarch, a := range archs {
		want := numbers(t, filepath.Join(strings.TrimSpace(string(out)), "unix", "zsysnum_linux_"+goarch+".go"))
		delete(want, "arch_specific_syscall") // the first of the numbers that arm64 does not use
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
