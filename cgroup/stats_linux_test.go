package cgroup

import (
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestStatsWithoutControllers(t *testing.T) {
	g := fresh(t)
	p := play(t, g, "spin 50ms")
	used, err := strconv.Atoi(p.hear(t)) // on a busy machine much less than 50
	if err != nil {
		t.Fatal(err)
	}
	p.silence(t)
	s, err := g.Stats()
	if err != nil {
		t.Fatal(err)
	}
	if s.CPU == nil || s.CPU.Usage == 0 || s.CPU.Usage < time.Duration(used)*time.Millisecond || s.CPU.Usage < s.CPU.User {
		t.Errorf("cpu %+v, and the process used %d ms", s.CPU, used)
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	have, err := g.Controllers()
	if err != nil {
		t.Fatal(err)
	}
	// A missing controller leaves no trace, least of all a zero.
	for controller, key := range map[string]string{"memory": `"current"`, "pids": `"refused"`, "io": `"read_bytes"`, "cpu": `"throttled"`} {
		without := len(intersect([]string{controller}, have)) == 0
		if without && strings.Contains(string(text), key) {
			t.Errorf("%s was measured without its controller: %s", controller, text)
		}
	}
}

func TestParseIO(t *testing.T) {
	text := "8:16 rbytes=1459200 wbytes=314773504 rios=192 wios=353 dbytes=0 dios=0\n8:0 rbytes=1 wbytes=2 rios=3 wios=4\n7:0 \n"
	if got, want := *parseIO(text), (IO{1459201, 314773506, 195, 357}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := *parseIO(""); got != (IO{}) {
		t.Errorf("got %+v", got)
	}
}

func TestParseStall(t *testing.T) {
	const us = time.Microsecond
	tests := []struct {
		text string
		want *Stall
	}{
		{"some avg10=1.50 avg60=0.00 avg300=0.00 total=12\nfull avg10=0.25 avg60=0.00 avg300=0.00 total=7\n", &Stall{1.5, 12 * us, 0.25, 7 * us}},
		{"some avg10=1.50 avg60=0.00 avg300=0.00 total=12\n", &Stall{SomeAvg10: 1.5, SomeTotal: 12 * us}},
		{"some avg10=0.00 total=12 more=1\nnew avg10=1.00 total=3\n", &Stall{SomeTotal: 12 * us}},
		{"full avg10=0.25 avg60=0.00 avg300=0.00 total=7\n", nil},
		{"some avg10=x avg60=0.00 avg300=0.00 total=12\n", nil},
		{"some avg10=1.50\n", nil},
		{"", nil},
	}
	for _, tt := range tests {
		got, ok := parseStall(tt.text)
		if ok != (tt.want != nil) || ok && *got != *tt.want {
			t.Errorf("%q: got %+v, want %+v", tt.text, got, tt.want)
		}
	}
}

// A file that cannot be understood is an error, and measures nothing.
func TestMalformed(t *testing.T) {
	g := fresh(t)
	r := reader{group: g}
	if n := r.number(eventsFile); n != nil || r.err == nil || !strings.Contains(r.err.Error(), g.Name()+"/"+eventsFile) {
		t.Errorf("%v, %v", n, r.err)
	}
	r = reader{group: g}
	if _, ok := r.keyed(eventsFile, "populated", "unheard of"); ok || r.err == nil {
		t.Error(r.err)
	}
	r = reader{group: g}
	if _, ok := r.keyed("no.such.file"); ok || r.err != nil {
		t.Error(r.err)
	}
	if err := (&Error{Op: "read", Object: "x", Err: os.ErrNotExist}); !errors.Is(err, os.ErrNotExist) || err.Error() != "cannot read x: file does not exist" {
		t.Error(err)
	}
}

func BenchmarkStats(b *testing.B) {
	g := fresh(b)
	for b.Loop() {
		if _, err := g.Stats(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCreateRemove(b *testing.B) {
	g := fresh(b)
	for b.Loop() {
		child, err := g.Create("child")
		if err != nil {
			b.Fatal(err)
		}
		if err := errors.Join(child.Close(), g.Remove("child")); err != nil {
			b.Fatal(err)
		}
	}
}
