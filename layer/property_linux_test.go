package layer

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/internal/testkit"
)

// What TestCommitProperty takes from the environment.
const (
	propertyRounds = "PADDOCK_TEST_ROUNDS" // how many rounds, of other seeds each time
	propertyRound  = "PADDOCK_TEST_ROUND"  // the seed of the only round
)

// A commit lands nothing that the host obeys unasked, has no link lead out, and loses no content:
// small random sources, changes and commits, judged by a model that shares no code with what
// screens. A round that fails is printed as small as it still fails, for the table of
// TestCommitVariants.
func TestCommitProperty(t *testing.T) {
	noSync(t)
	rounds, from := testkit.Rounds(2000, 200), uint64(1)
	if n, err := strconv.Atoi(os.Getenv(propertyRounds)); err == nil {
		rounds, from = n, uint64(time.Now().UnixNano())
	}
	if seed, err := strconv.ParseUint(os.Getenv(propertyRound), 10, 64); err == nil {
		rounds, from = 1, seed
	}
	var next atomic.Uint64
	var mu sync.Mutex
	var all tally
	failed := map[string]bool{}
	var workers sync.WaitGroup
	for range 3 {
		s := newStage(t)
		workers.Go(func() {
			for {
				n := next.Add(1) - 1
				if n >= uint64(rounds) || t.Failed() && !testing.Verbose() {
					return
				}
				seed := from + n
				sc, marks := atRandom(seed)
				out, err := s.play(t, sc, marks, false)
				mu.Lock()
				switch {
				case errors.Is(err, errNoOverlay):
					all.skipped = err
				case err != nil:
					t.Errorf("round %d, %s: %v\n%s", seed, marks, err, sc)
				case len(out.violations) > 0 && !failed[class(out.violations)]:
					failed[class(out.violations)] = true
					mu.Unlock()
					sc, out = s.smaller(t, sc, marks, out)
					mu.Lock()
					t.Errorf("round %d, %s; it is done again with %s=%d:\n%s%s", seed, marks, propertyRound, seed, first(8, out.violations), sc)
				case len(out.violations) > 0:
					t.Errorf("round %d, %s: %s", seed, marks, first(1, out.violations))
				}
				all.add(out)
				mu.Unlock()
				if all.skipped != nil {
					return
				}
			}
		})
	}
	workers.Wait()
	if all.skipped != nil {
		t.Skip(all.skipped)
	}
	t.Logf("%d rounds from %d: %s", rounds, from, all)
	if rounds >= 100 && (all.landed*5 < all.changes || all.commits < rounds) {
		t.Errorf("too little lands to prove anything: %s", all)
	}
}

// tally counts what rounds did.
type tally struct {
	commits, changes, landed, held, failed int
	skipped                                error
}

func (c *tally) add(p played) {
	for _, one := range p.commits {
		c.commits++
		if one.err != nil {
			c.failed++
			continue
		}
		c.changes += len(one.changes)
		c.landed += len(one.result.Landed)
		c.held += len(one.result.Held)
	}
}

func (c tally) String() string {
	return fmt.Sprintf("%d commits, %d of them failed by a conflict; of %d changes %d landed, %d were held", c.commits, c.failed, c.changes, c.landed, c.held)
}

// class is what kind of failure the first violation is.
func class(violations []string) string {
	f := strings.SplitN(violations[0], ":", 3)
	if len(f) < 3 {
		return violations[0]
	}
	return f[0] + f[1] + path.Base(strings.Fields(f[2] + " x")[0])
}

// smaller makes a scene smaller, as long as it violates the same property.
func (s *stage) smaller(t testing.TB, sc scene, marks Marks, out played) (scene, played) {
	property := out.violations[0][:1]
	fails := func(sc scene) bool {
		p, err := s.play(t, sc, marks, false)
		if err == nil && slices.ContainsFunc(p.violations, func(v string) bool { return v[:1] == property }) {
			out = p
			return true
		}
		return false
	}
	for again := true; again; {
		again = false
		for _, list := range []func(*scene) *[]string{
			func(s *scene) *[]string { return &s.steps }, func(s *scene) *[]string { return &s.source }, func(s *scene) *[]string { return &s.outside },
			func(s *scene) *[]string { return &s.homes }, func(s *scene) *[]string { return &s.named }, func(s *scene) *[]string { return &s.search },
		} {
			for i := 0; i < len(*list(&sc)); {
				less := sc
				*list(&less) = slices.Delete(slices.Clone(*list(&sc)), i, i+1)
				if fails(less) {
					sc, again = less, true
				} else {
					i++
				}
			}
		}
		for i, step := range sc.steps { // and commits plainer
			if word, rest, _ := strings.Cut(step, " "); word == "commit" && rest != "" {
				less := sc
				less.steps = slices.Clone(sc.steps)
				less.steps[i] = "commit"
				if fails(less) {
					sc, again = less, true
				}
			}
		}
	}
	return sc, out
}

// Names of the trees that are made at random.
var (
	randomDirs  = []string{"", "", "a", "a", "b", "a/b", "web", "lib", "shared", "cfg", "cur", "v2", "src", "dst", "src/deep", "node_modules/web", "node_modules/p", "vendor/p", "d", "d/objects", ".vscode", ".claude", ".mise", "mise", ".config", "a/.vscode", "bin", "v2/bin"}
	randomFiles = []string{"f", "g", "tasks.json", "settings.json", ".envrc", ".mise.toml", "config.toml", ".mcp.json", ".npmrc", "package.json", "Makefile", "GNUmakefile", "makefile", "ls", "run", "HEAD", "config", "commondir", ".git", "lefthook.yml", ".bashrc", "mise.toml", "build.rs",
		".vscode/tasks.json", ".claude/settings.json", ".claude/worktrees/x", "mise/config.toml", ".mise/x", ".git/config", ".git/HEAD", ".git/hooks/pre-commit", ".git/objects/x", ".git/refs/x", ".git/refs/heads/e/.mise.toml", ".git/refs/heads/e/x", ".git/index", ".git/modules/m/config", "objects/.mise/x", "hooks/update", ".cargo/config.toml", ".husky/pre-commit"}
	randomContents = []string{"1", "2", "3", "4", "5", "six"}
	randomLinks    = []string{"a", "b", "lib", "shared", "cfg", "v2", "web", "node_modules/web", "vendor/p", "src", "d", ".git", ".git/objects", ".git/hooks", ".", "..", "nowhere", "f", ".envrc", "lib/../f", "lib/../profile", "lib/../../profile", "cfg/../a", "tasks.json"}
	repository     = []string{"HEAD ref", "objects/", "refs/", "config [core]", "hooks/x x"}
)

// maker makes scenes at random.
type maker struct {
	*rand.Rand
	known []string // paths that may be there
}

func pick[T any](m *maker, list []T) T { return list[m.IntN(len(list))] }

func (m *maker) chance(percent int) bool { return m.IntN(100) < percent }

// fresh returns a path of a file that may be there or not.
func (m *maker) fresh() string {
	p := path.Join(pick(m, randomDirs), pick(m, randomFiles))
	m.known = append(m.known, p)
	return p
}

// old returns a path that may be there, or a directory above one.
func (m *maker) old() string {
	p := pick(m, m.known)
	for m.chance(40) && strings.Contains(p, "/") {
		p = path.Dir(p)
	}
	return p
}

// dir returns a path at which a directory may be or come.
func (m *maker) dir() string {
	if p := pick(m, randomDirs); p != "" && m.chance(60) {
		return p
	}
	if m.chance(30) {
		return path.Join(pick(m, randomDirs), pick(m, []string{".vscode", ".mise", ".claude", ".git", "node_modules", "e", "objects"}))
	}
	return m.old()
}

// target returns the text of a link at a path.
func (m *maker) target(at string) string {
	to := pick(m, randomLinks)
	if m.chance(25) {
		to = pick(m, m.known)
	}
	switch m.IntN(12) {
	case 0:
		return "{SOURCE}/" + to
	case 1:
		return "{OUT}/profile"
	case 2:
		return to // relative to its directory
	}
	return strings.Repeat("../", strings.Count(at, "/")) + to
}

func (m *maker) text() string { return pick(m, randomContents) }

// atRandom returns the scene of a seed.
func atRandom(seed uint64) (scene, Marks) {
	m := &maker{Rand: rand.New(rand.NewPCG(seed, 32))}
	s := scene{outside: []string{"profile x", "bin/ls *x"}, search: []string{"{OUT}/bin"}, names: seed/2%2 == 0}
	for range 3 + m.IntN(9) {
		p := m.fresh()
		switch {
		case m.chance(25):
			p = m.dir()
			m.known = append(m.known, p)
			s.source = append(s.source, p+" ->"+m.target(p))
		case m.chance(15):
			s.source = append(s.source, p+" *"+m.text())
		default:
			s.source = append(s.source, p+" "+m.text())
		}
	}
	if m.chance(35) {
		git := path.Join(pick(m, []string{"", "a", "web", "node_modules/web", "d"}), pick(m, []string{".git", ".git", "", "r"}))
		for _, part := range repository {
			if m.chance(80) {
				p, text, _ := strings.Cut(part, " ")
				s.source = append(s.source, strings.TrimSpace(strings.TrimPrefix(git+"/"+p, "/")+" "+text))
				m.known = append(m.known, path.Join(git, p))
			}
		}
	}
	if m.chance(25) {
		s.homes = []string{pick(m, []string{".", "a", "b", "lib"})}
	}
	if m.chance(20) {
		s.named = []string{pick(m, []string{"shared/hooks", "run", "a/run", "lib/run", "cfg"})}
	}
	if m.chance(40) {
		s.search = append(s.search, pick(m, []string{"{SOURCE}/bin", "{SOURCE}/cur/bin", "{SOURCE}/lib", "{OUT}/local"}))
		if m.chance(50) {
			s.outside = append(s.outside, "local ->{SOURCE}/"+pick(m, []string{"cfg/bin", "bin", "lib"}))
		}
	}
	for n := range pick(m, []int{1, 1, 2, 2, 3}) {
		if n > 0 && m.chance(50) {
			s.steps = append(s.steps, "layer")
		}
		m.session(&s)
	}
	marks := marksHere()
	return s, marks[int(seed)%len(marks)]
}

// session appends what commands do, and commits.
func (m *maker) session(s *scene) {
	for range 1 + m.IntN(6) {
		s.steps = append(s.steps, m.step())
	}
	how := ""
	if m.chance(20) {
		for range 1 + m.IntN(2) {
			p := m.old()
			s.steps = append(s.steps, pick(m, []string{"host write " + p + " host", "host rm " + p, "host write " + m.fresh() + " host2", "host mkdir " + m.dir(), "host ln " + p + " " + m.target(p)}))
		}
		how = pick(m, []string{"", " -skip", " -skip", " -overwrite"})
	}
	if m.chance(25) {
		how += fmt.Sprintf(" -some %d", m.IntN(100))
	}
	switch m.IntN(6) {
	case 0, 1:
		s.steps = append(s.steps, "commit"+how+fmt.Sprintf(" -half %d", m.IntN(100)), "commit"+how)
	case 2:
		s.steps = append(s.steps, "commit"+how+" "+m.old())
	default:
		s.steps = append(s.steps, "commit"+how)
	}
	if m.chance(15) {
		s.steps = append(s.steps, "commit")
	}
}

// step returns one step of commands.
func (m *maker) step() string {
	switch n := m.IntN(100); {
	case n < 25:
		return pick(m, []string{"write ", "write ", "exec "}) + m.fresh() + " " + m.text()
	case n < 35:
		return pick(m, []string{"write ", "exec "}) + m.old() + " " + m.text()
	case n < 55:
		return "rm " + m.old()
	case n < 73:
		from, to := m.old(), m.dir()
		if m.chance(30) {
			to = m.fresh()
		}
		m.known = append(m.known, to)
		return "mv " + from + " " + to
	case n < 92:
		p := m.dir()
		if m.chance(30) {
			p = m.fresh()
		}
		m.known = append(m.known, p)
		return "ln " + p + " " + m.target(p)
	case n < 97:
		p := m.dir()
		m.known = append(m.known, p)
		return "mkdir " + p
	}
	return "chmod " + m.old() + " 755"
}
