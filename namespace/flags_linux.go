package namespace

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// flag is one that may be given, by its name, or by its letter.
type flag[S any] struct {
	long  string
	short byte
	value valueKind
	set   func(s *S, value string) (wrong string)
}

type valueKind uint8

const (
	noValue       valueKind = iota
	optionalValue           // --name or --name=VALUE
	needsValue              // --name=VALUE
)

// Spell writes flags as tools that take them do: what begins with a dash
// stays, one character gets one, and a word two.
func Spell(flags []string) []string {
	spelled := make([]string, len(flags))
	for i, f := range flags {
		switch {
		case strings.HasPrefix(f, "-"):
			spelled[i] = f
		case utf8.RuneCountInString(f) == 1:
			spelled[i] = "-" + f
		default:
			spelled[i] = "--" + f
		}
	}
	return spelled
}

// parse applies flags to s. Each value stands in the same element as its flag,
// so that no element can be taken for something else than what it was.
func parse[S any](list []flag[S], flags []string, s *S) error {
	for _, text := range Spell(flags) {
		if err := parseOne(list, text, s); err != nil {
			err.Flag, err.Hint = text, listed(list)
			return err
		}
	}
	return nil
}

func parseOne[S any](list []flag[S], text string, s *S) *FlagError {
	if name, ok := strings.CutPrefix(text, "--"); ok {
		name, value, has := strings.Cut(name, "=")
		i := slices.IndexFunc(list, func(f flag[S]) bool { return f.long == name })
		if name == "" || i < 0 {
			return &FlagError{Reason: "it is not on the list"}
		}
		return list[i].apply(s, value, has)
	}
	letters := text[1:]
	for i := 0; i < len(letters); i++ {
		at := slices.IndexFunc(list, func(f flag[S]) bool { return f.short == letters[i] && f.short != 0 })
		if at < 0 {
			return &FlagError{Reason: "it is not on the list"}
		}
		if list[at].value == needsValue {
			value := letters[i+1:]
			return list[at].apply(s, value, value != "")
		}
		if err := list[at].apply(s, "", false); err != nil {
			return err
		}
	}
	if letters == "" {
		return &FlagError{Reason: "it is not on the list"}
	}
	return nil
}

func (f *flag[S]) apply(s *S, value string, has bool) *FlagError {
	switch {
	case has && f.value == noValue:
		return &FlagError{Reason: "it takes no value"}
	case has && value == "":
		return &FlagError{Reason: "its value is empty"}
	case !has && f.value == needsValue:
		return &FlagError{Reason: "its value is missing: write --" + f.long + "=VALUE as one element"}
	case strings.IndexByte(value, 0) >= 0 || !utf8.ValidString(value):
		return &FlagError{Reason: "its value is no text"}
	}
	if wrong := f.set(s, value); wrong != "" {
		return &FlagError{Reason: wrong}
	}
	return nil
}

// listed are all flags, for people.
func listed[S any](list []flag[S]) string {
	var b strings.Builder
	b.WriteString("these are:")
	for i, f := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte(' ')
		if f.short != 0 {
			b.WriteString("-" + string(f.short) + " ")
		}
		b.WriteString("--" + f.long)
		switch f.value {
		case optionalValue:
			b.WriteString("[=VALUE]")
		case needsValue:
			b.WriteString("=VALUE")
		}
	}
	return b.String()
}
