package strictjson_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/internal/strictjson"
	"github.com/paddock-dev/paddock/policy"
)

type document struct {
	Version int               `json:"version"`
	Edits   []edit            `json:"edits,omitempty"`
	Names   map[string]string `json:"names"`
	When    time.Time         `json:"when,omitzero"`
	Wait    policy.Duration   `json:"wait"`
	Memory  policy.Size       `json:"memory"`
	Content []byte            `json:"content"`
	All     *bool             `json:"all"`
	Share   float64           `json:"share"`
	Any     any               `json:"any"`
}

type edit struct {
	Old string `json:"old"`
	New string `json:"new"`
}

func TestUnmarshal(t *testing.T) {
	var doc document
	const text = `{"version": 1, "edits": [{"old": "a", "new": "b"}], "names": {"a": "1"}, "wait": "10s", "memory": "1MiB", "content": "AQI=", "all": true, "any": [null, {"A": 1, "a": 2}]}`
	if err := strictjson.Unmarshal([]byte(text), &doc, strictjson.Options{}); err != nil {
		t.Fatal(err)
	}
	if doc.Version != 1 || doc.Edits[0] != (edit{"a", "b"}) || doc.Names["a"] != "1" || len(doc.Content) != 2 || !*doc.All {
		t.Errorf("%+v", doc)
	}
}

// TestRefused has every text that another reader could understand otherwise, and the path,
// kind and line of its error.
func TestRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		text, want string
		kind       error
	}{
		"empty":              {"", "line 1: the text ends too early", strictjson.ErrIncomplete},
		"half":               {"{\n\"version\": 1", "line 2: the text ends too early", strictjson.ErrIncomplete},
		"half a string":      {`{"vers`, "line 1: the text ends too early", strictjson.ErrIncomplete},
		"followed":           {"{}\n{}", "line 2: invalid character '{' after top-level value", nil},
		"no JSON":            {"version: 1", "line 1: invalid character", nil},
		"a list":             {"[]", "line 1: must be an object, not array", nil},
		"twice":              {"{\"version\": 1,\n\"version\": 2}", "line 2: version: appears twice", strictjson.ErrDuplicate},
		"twice, escaped":     {`{"version": 1, "versio\u006e": 1}`, "version: appears twice", strictjson.ErrDuplicate},
		"twice in a map":     {`{"names": {"a": "1", "a": "1"}}`, "names.a: appears twice", strictjson.ErrDuplicate},
		"twice in a list":    {`{"edits": [{}, {"old": "", "old": ""}]}`, "edits[1].old: appears twice", strictjson.ErrDuplicate},
		"twice in any":       {`{"any": {"a": 1, "a": 2}}`, "any.a: appears twice", strictjson.ErrDuplicate},
		"unknown":            {`{"edits": [{"older": ""}]}`, "edits[0].older: unknown member", strictjson.ErrUnknown},
		"in other case":      {`{"Version": 1}`, "Version: unknown member", strictjson.ErrUnknown},
		"a text of numbers":  {`{"version": "1"}`, "version: must be a whole number, not string", nil},
		"a fraction":         {`{"version": 1.5}`, "version: invalid syntax", nil},
		"too large":          {`{"version": 1e400}`, "version: ", nil},
		"an object of text":  {`{"edits": [{"old": {}}]}`, "edits[0].old: must be a string, not object", nil},
		"a list of an edit":  {`{"edits": [[]]}`, "edits[0]: must be an object, not array", nil},
		"text of a list":     {`{"edits": "x"}`, "edits: must be a list, not string", nil},
		"number of a bool":   {`{"all": 1}`, "all: must be true or false, not number", nil},
		"text of a number":   {`{"share": "1"}`, "share: must be a number, not string", nil},
		"a bad duration":     {`{"wait": "soon"}`, "wait: ", nil},
		"a bad size":         {`{"memory": "much"}`, "memory: ", nil},
		"bad base64":         {`{"content": "*"}`, "content: ", nil},
		"bad UTF-8":          {"{\"names\": {\"a\": \"\xff\"}}", "invalid UTF-8", nil},
		"half a surrogate":   {`{"names": {"a": "\ud800"}}`, "names.a: invalid surrogate pair", nil},
		"odd names":          {`{"names": {"a b": 1}}`, `names."a b": must be a string, not number`, nil},
		"nested for ever":    {`{"any": ` + strings.Repeat("[", 20000), "exceeded max depth", nil},
		"null for a version": {`{"version": null}`, "version: must not be null", strictjson.ErrNull},
		"null in a list":     {`{"edits": [null]}`, "edits[0]: must not be null", strictjson.ErrNull},
	} {
		t.Run(name, func(t *testing.T) {
			var doc document
			err := strictjson.Unmarshal([]byte(tt.text), &doc, strictjson.Options{NoNull: true})
			own := (*strictjson.Error)(nil)
			if !errors.As(err, &own) || !strings.Contains(err.Error(), tt.want) || tt.kind != nil && !errors.Is(err, tt.kind) {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}

func TestUnknownNamesItsObject(t *testing.T) {
	own := (*strictjson.Error)(nil)
	err := strictjson.Unmarshal([]byte(`{"edits": [{}, {"olde": 1}]}`), &document{}, strictjson.Options{})
	if !errors.As(err, &own) || own.Path != "edits[1].olde" || own.Key != "olde" || own.In != reflect.TypeFor[edit]() {
		t.Errorf("%+v", own)
	}
}

// TestForeign: of another program's file what is known is read, exactly, and nothing that a reader
// without regard to case would take for something else.
func TestForeign(t *testing.T) {
	for text, want := range map[string]string{
		`{"old": "a", "more": {"x": [1, {"y": 2}]}, "new": "b"}`: "",
		`{"OLD": "a"}`: "", // another member
		`{"more": [{"a": 1}, {"A": 1}, {"b": "B"}, ["b", "B"]]}`: "",
		`{"old": "a", "OLD": "b"}`:                               "line 1: OLD: differs from another member in case alone",
		`{"more": [{"a": {"k": 1, "\u212a": 2}}]}`:               "case alone",
		`{"old": "a", "more": {"\u0073ub": 1, "\u017fub": 1}}`:   "case alone",
		`{"old": "a", "old": "b"}`:                               "old: appears twice",
		`{"more": {"a": 1, "a": 2}}`:                             "more.a: appears twice",
		`{"old": "a"} {}`:                                        "after top-level value",
		`{"old": "a"}}`:                                          "after top-level value",
		`{"old": 1}`:                                             "must be a string",
		``:                                                       "ends too early",
	} {
		var e edit
		err := strictjson.Unmarshal([]byte(text), &e, strictjson.Options{Foreign: true})
		switch {
		case want == "" && (err != nil || strings.Contains(text, `"old"`) != (e.Old == "a")):
			t.Errorf("%s: %+v, %v", text, e, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
