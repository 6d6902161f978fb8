package executor

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/paddock-dev/paddock/policy"
)

// What the spec says counts more than the file; what nobody says is a default,
// which may be weaker where the host cannot keep it.
func TestSettle(t *testing.T) {
	spec := policy.Spec{Limits: policy.Limits{OpenFiles: 64}, Network: policy.Network{Mode: "host"}}
	config := Config{Network: "none", Limits: policy.Limits{OpenFiles: 128, Memory: 64 * policy.MiB}}
	got := Settle(config.Apply(spec))
	commands := policy.DefaultCommands()
	want := policy.Spec{
		Network: policy.Network{Mode: "host"}, Commands: &commands, AllowDegraded: []string{policy.DegradeProcesses},
		Limits: policy.Limits{
			OpenFiles: 64, Memory: 64 * policy.MiB, CPUTime: DefaultCPUTime, FileSize: DefaultFileSize, Processes: 32,
			Timeout: DefaultTimeout, MaxTimeout: DefaultMaxTimeout,
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := Settle(policy.Spec{}); !got.Allows(policy.DegradeMemory) || got.Limits.Memory != 512*policy.MiB || got.Network.Mode != "none" {
		t.Errorf("the defaults are %+v", got)
	}
	if got := Settle(policy.Spec{Limits: policy.Limits{MemoryHigh: policy.GiB}}); got.Allows(policy.DegradeMemory) || got.Limits.Memory != 0 {
		t.Errorf("a written bound has become %+v", got)
	}
}

func TestTimeout(t *testing.T) {
	second := policy.Duration(time.Second)
	l := policy.Limits{Timeout: 120 * second, MaxTimeout: 300 * second}
	for _, tt := range []struct {
		asked, want policy.Duration
		cut         bool
	}{{0, 120 * second, false}, {second / 2, second / 2, false}, {300 * second, 300 * second, false}, {301 * second, 300 * second, true}} {
		if d, cut := Timeout(l, tt.asked); d != tt.want || cut != tt.cut {
			t.Errorf("Timeout(%v) = %v, %v", tt.asked, d, cut)
		}
	}
	if d, cut := Timeout(policy.Limits{Timeout: 600 * second, MaxTimeout: 300 * second}, 0); d != 300*second || !cut {
		t.Errorf("a default beyond the most is %v, %v", d, cut)
	}
}

func TestSeconds(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"1": time.Second, "1.5": 1500 * time.Millisecond, "0.001": time.Millisecond, "1e1": 10 * time.Second, "604800": 7 * 24 * time.Hour,
	} {
		if d, reason := Seconds(text); time.Duration(d) != want || reason != "" {
			t.Errorf("Seconds(%q) = %v, %q", text, d, reason)
		}
	}
	for _, text := range []string{"", "x", "0", "-0", "-1", "NaN", "nan", "Inf", "-Inf", "1e999", "0x10", "1_0", "604801", "0.0001", "true"} {
		if d, reason := Seconds(text); reason == "" {
			t.Errorf("Seconds(%q) = %v", text, d)
		}
	}
	if got := FormatSeconds(policy.Duration(1500 * time.Millisecond)); got != "1.5" {
		t.Errorf("FormatSeconds is %s", got)
	}
}

func TestEnvironment(t *testing.T) {
	got := Environment(512 * policy.MiB)
	want := map[string]string{
		"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "random",
		"PIP_NO_INPUT": "1", "npm_config_ignore_scripts": "true", "MPLBACKEND": "Agg", "NODE_OPTIONS": "--max-old-space-size=384",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestReserved(t *testing.T) {
	for _, name := range []string{"HOME", "PWD", "PIP_NO_INPUT", "PIP_INDEX_URL", "GOFLAGS", "GO_LDFLAGS", "CC", "R_PROFILE_USER"} {
		if !Reserved(name) {
			t.Errorf("%s is not reserved", name)
		}
	}
	for _, name := range []string{"LANG", "TZ", "DEBUG", "CCACHE", "GO", "LDFLAGS", "MPLBACKEND", "PYTHONUNBUFFERED", "PIP", "home"} {
		if Reserved(name) {
			t.Errorf("%s is reserved", name)
		}
	}
}
