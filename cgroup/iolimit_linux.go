package cgroup

import (
	"fmt"
	"strconv"
	"strings"
)

// device is how files name it.
func (l *IOLimit) device() string { return fmt.Sprintf("%d:%d", l.Major, l.Minor) }

// ioField is a limit by its name in io.max.
type ioField struct {
	key   string
	value *uint64
}

func (l *IOLimit) fields() []ioField {
	return []ioField{{"rbps", &l.ReadBPS}, {"wbps", &l.WriteBPS}, {"riops", &l.ReadIOPS}, {"wiops", &l.WriteIOPS}}
}

// String is the limit as io.max takes it.
func (l IOLimit) String() string {
	text := l.device()
	for _, f := range l.fields() {
		if *f.value > 0 {
			text += " " + f.key + "=" + limitText(clamp(*f.value))
		}
	}
	return text
}

// kept says whether io.max holds the limit.
func (l IOLimit) kept(text string) bool {
	var now IOLimit
	for line := range strings.Lines(text) {
		if dev, rest, _ := strings.Cut(line, " "); dev == l.device() {
			now.parse(rest)
		}
	}
	have := now.fields()
	for i, f := range l.fields() {
		unlimited := *f.value >= Unlimited && *have[i].value == 0
		if *f.value > 0 && *f.value != *have[i].value && !unlimited {
			return false
		}
	}
	return true
}

// parse reads "rbps=1 wbps=max …", of which "max" is no limit.
func (l *IOLimit) parse(text string) {
	for field := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(field, "=")
		n, _ := strconv.ParseUint(value, 10, 64)
		for _, f := range l.fields() {
			if f.key == key {
				*f.value = n
			}
		}
	}
}
