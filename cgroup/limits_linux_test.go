package cgroup

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func pointer[T any](v T) *T { return &v }

func TestSettings(t *testing.T) {
	page := int64(unix.Getpagesize())
	tests := []struct {
		limits     Limits
		file, text string
		kept, not  []string // texts that the kernel may have then, and texts of other limits
	}{
		{Limits{MemoryMax: 4*page + 1}, "memory.max", limitText(4*page + 1), []string{limitText(4 * page)}, []string{"max", limitText(5 * page), limitText(3 * page), "", "x"}},
		{Limits{MemoryMax: Unlimited}, "memory.max", "max", []string{"max\n"}, []string{"0", limitText(1 << 40)}},
		{Limits{MemoryHigh: page}, "memory.high", limitText(page), []string{limitText(page)}, []string{"max"}},
		{Limits{SwapMax: pointer(int64(0))}, "memory.swap.max", "0", []string{"0\n"}, []string{"max", limitText(page)}},
		{Limits{OOMGroup: true}, "memory.oom.group", "1", []string{"1\n"}, []string{"0\n"}},
		{Limits{MilliCPUs: 1500}, "cpu.max", "150000 100000", []string{"150000 100000\n"}, []string{"max 100000", "150000 50000"}},
		{Limits{MilliCPUs: 1}, "cpu.max", "1000 100000", []string{"1000 100000\n"}, nil},
		{Limits{MilliCPUs: Unlimited}, "cpu.max", "max 100000", []string{"max 100000\n"}, []string{"1000 100000"}},
		{Limits{CPUWeight: 50}, "cpu.weight", "50", []string{"50\n"}, []string{"100\n"}},
		{Limits{Pids: 7}, "pids.max", "7", []string{"7\n"}, []string{"max", "8", "6"}},
		{
			Limits{IO: []IOLimit{{Major: 8, Minor: 16, ReadBPS: 1000, WriteIOPS: Unlimited}}}, "io.max", "8:16 rbps=1000 wiops=max",
			[]string{"8:16 rbps=1000 wbps=max riops=max wiops=max\n", "8:0 rbps=1 wbps=max riops=max wiops=max\n8:16 rbps=1000\n"},
			[]string{"", "8:0 rbps=1000 wbps=max riops=max wiops=max\n", "8:16 rbps=1000 wbps=max riops=max wiops=5\n"},
		},
	}
	for _, tt := range tests {
		all := tt.limits.settings()
		if len(all) != 1 || all[0].file != tt.file || all[0].text != tt.text {
			t.Errorf("%+v: got %+v", tt.limits, all)
			continue
		}
		for _, text := range tt.kept {
			if !all[0].kept(text) {
				t.Errorf("%s: %q is not taken for %q", tt.file, text, tt.text)
			}
		}
		for _, text := range tt.not {
			if all[0].kept(text) {
				t.Errorf("%s: %q is taken for %q", tt.file, text, tt.text)
			}
		}
	}
	if all := (&Limits{}).settings(); all != nil {
		t.Errorf("nothing is %+v", all)
	}
}

// The error names all limits without controllers, and none is set.
func TestSetWithoutControllers(t *testing.T) {
	g := fresh(t)
	have, err := g.Controllers()
	if err != nil {
		t.Fatal(err)
	}
	if len(have) > 0 {
		// Groups inside of this one have none, as it hands none on.
		if g, err = g.Create("without"); err != nil {
			t.Fatal(err)
		}
		defer g.Close()
	}
	err = g.Set(Limits{MemoryMax: 1 << 20, Pids: 5, MilliCPUs: 100, IO: []IOLimit{{Major: 8, ReadBPS: 1}}})
	if !errors.Is(err, ErrNoController) {
		t.Fatal(err)
	}
	for _, name := range Wanted {
		if !strings.Contains(err.Error(), "the controller is not available: "+name) {
			t.Errorf("nothing about %s: %v", name, err)
		}
	}
	var e *Error
	if !errors.As(err, &e) || e.Op != "set" || e.Object != "memory.max" || e.Hint == "" {
		t.Errorf("%+v", e)
	}
	if err := g.Set(Limits{}); err != nil {
		t.Errorf("nothing was asked for: %v", err)
	}
	if l, err := g.Limits(); err != nil || !reflect.DeepEqual(l, Limits{}) {
		t.Errorf("%+v, %v", l, err)
	}
	if got, err := g.Enable("memory", "no-such"); err != nil || len(got) != 0 {
		t.Errorf("handed on: %v, %v", got, err)
	}
}

// Limits are read as they were set, rounded to whole pages; others do not change.
func TestSetAndRead(t *testing.T) {
	g := controlled(t, "memory", "cpu", "pids")
	before, err := g.Limits()
	if err != nil || before.MemoryMax != Unlimited || before.MilliCPUs != Unlimited || before.CPUWeight != 100 || before.OOMGroup || *before.SwapMax != Unlimited {
		t.Fatalf("a new group has %+v, %v", before, err)
	}
	want := Limits{MemoryMax: 64 << 20, MemoryHigh: 32 << 20, SwapMax: pointer(int64(0)), OOMGroup: true, MilliCPUs: 250, CPUWeight: 42, Pids: 17}
	asked := want
	asked.MemoryMax += 100
	if err := g.Set(asked); err != nil {
		t.Fatal(err)
	}
	if got, err := g.Limits(); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v, %v", got, want, err)
	}
	if err := g.Set(Limits{Pids: Unlimited, MilliCPUs: Unlimited}); err != nil {
		t.Fatal(err)
	}
	want.Pids, want.MilliCPUs = Unlimited, Unlimited
	if got, err := g.Limits(); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v, %v", got, want, err)
	}
	for _, bad := range []Limits{{CPUWeight: 10001}, {MemoryMax: -5}, {MilliCPUs: -1}, {SwapMax: pointer(int64(-1))}, {Pids: 1 << 62}} {
		var e *Error
		if err := g.Set(bad); !errors.As(err, &e) || !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ERANGE) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
