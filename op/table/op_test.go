package table

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/exec"
	"github.com/paddock-dev/paddock/policy"
)

type sumInput struct {
	Numbers []int           `json:"numbers" arg:"N..."`
	Wait    policy.Duration `json:"wait,omitempty" flag:"wait" short:"w" arg:"DUR" help:"how long"`
	Loud    bool            `json:"loud,omitempty" flag:"loud"`
	Most    *uint64         `json:"most,omitempty" flag:"most" choices:"1,2"`
	Names   []string        `json:"names,omitempty" flag:"name"`
}

type sumOutput struct {
	Sum int `json:"sum"`
}

func sumOp() op.Op {
	return op.New(op.Desc{Name: "sum"},
		func(_ context.Context, _ *op.Env, in sumInput, stream *op.Stream) (sumOutput, error) {
			if stream == nil {
				return sumOutput{}, errors.New("no stream")
			}
			sum := 0
			for _, n := range in.Numbers {
				sum += n
			}
			return sumOutput{sum}, nil
		},
		func(w io.Writer, out sumOutput) error {
			_, err := fmt.Fprintln(w, "sum", out.Sum)
			return err
		})
}

func TestCallDecodesStrictly(t *testing.T) {
	tests := []struct{ name, input, wantErr string }{
		{"complete", `{"numbers":[1,2],"wait":"1s"}`, ""},
		{"nothing", `{}`, ""},
		{"an unknown field", `{"number":[1]}`, `cannot read the input of sum: unknown field "number"`},
		{"a wrong type", `{"numbers":"1"}`, "cannot read the input of sum: numbers must not be a JSON string"},
		{"no object", `[1]`, "cannot read the input of sum: it must be an object, not a JSON array"},
		{"a wrong unit", `{"wait":"1x"}`, `cannot read the input of sum: cannot use wait "1x": unknown unit "x"`},
		{"half an object", `{"numbers":[`, "cannot read the input of sum: the JSON object is not complete"},
		{"empty", ``, "cannot read the input of sum: the JSON object is not complete"},
		{"two objects", `{}{}`, "cannot read the input of sum: something follows the object"},
		{"too long", `{"numbers":[` + strings.Repeat(" ", op.MaxInput) + `]}`,
			"cannot read the input of sum: it is longer than 16777216 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := sumOp().Call(t.Context(), &op.Env{}, []byte(tt.input), nil)
			if got := fmt.Sprint(err); got != tt.wantErr && (err != nil || tt.wantErr != "") {
				t.Errorf("error is %q, want %q", got, tt.wantErr)
			}
		})
	}
}

func TestRender(t *testing.T) {
	out, err := sumOp().Call(t.Context(), &op.Env{}, []byte(`{"numbers":[2,3]}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := sumOp().Render(&b, out); err != nil || b.String() != "sum 5\n" {
		t.Errorf("Render() wrote %q, %v", b.String(), err)
	}
	if err := sumOp().Render(&b, "something else"); err == nil {
		t.Error("the output of another operation was rendered")
	}
}

func TestFields(t *testing.T) {
	fields := sumOp().Fields()
	want := []struct {
		json, flag, short string
		kind              op.Kind
	}{
		{"numbers", "", "", op.KindList}, {"wait", "wait", "w", op.KindText}, {"loud", "loud", "", op.KindBool},
		{"most", "most", "", op.KindCount}, {"names", "name", "", op.KindList},
	}
	if len(fields) != len(want) {
		t.Fatalf("%d fields", len(fields))
	}
	for i, w := range want {
		if f := fields[i]; f.JSON != w.json || f.Flag != w.flag || f.Short != w.short || f.Kind != w.kind {
			t.Errorf("field %d is %+v, want %+v", i, f, w)
		}
	}
	if got := fields[3].Choices; len(got) != 2 || got[1] != "2" {
		t.Errorf("choices are %q", got)
	}
}

func TestFieldValue(t *testing.T) {
	byFlag := make(map[string]op.Field)
	for _, f := range sumOp().Fields() {
		byFlag[f.Flag] = f
	}
	tests := []struct {
		flag, text string
		want       any
		wantErr    string
	}{
		{"wait", "1m", "1m", ""},
		{"wait", "1", nil, `cannot use --wait "1": a unit is missing`},
		{"most", "18446744073709551615", uint64(18446744073709551615), ""},
		{"most", "18446744073709551616", nil, `cannot use --most "18446744073709551616": it is not a whole number from 0 to 2^64-1`},
		{"loud", "false", false, ""},
		{"loud", "loud", nil, `cannot use --loud "loud": it is neither true nor false`},
		{"name", "x", "x", ""},
		{"name", "\xff", nil, `cannot use --name "\xff": it is not valid UTF-8`},
	}
	for _, tt := range tests {
		got, err := byFlag[tt.flag].Value(tt.text)
		if got != tt.want || (err == nil) != (tt.wantErr == "") || err != nil && err.Error() != tt.wantErr {
			t.Errorf("--%s %q is %v, %v; want %v, %q", tt.flag, tt.text, got, err, tt.want, tt.wantErr)
		}
	}
}

// TestTable checks what every door relies on.
func TestTable(t *testing.T) {
	names := make(map[string]bool)
	for _, o := range All() {
		if o.Name == "" || names[o.Name] || len(o.CLI) == 0 != o.Lasting || o.Summary == "" || o.Doc == "" || o.Examples == "" != o.Lasting {
			t.Errorf("operation %q is not described, or named twice", o.Name)
		}
		names[o.Name] = true
		keys, flags := make(map[string]bool), make(map[string]bool)
		for _, f := range o.Fields() {
			if f.JSON == "" || keys[f.JSON] || f.Flag != "" && flags[f.Flag] || f.Help == "" || f.Kind != op.KindBool && f.Arg == "" && !o.Lasting {
				t.Errorf("field %+v of %s is not described, or named twice", f, o.Name)
			}
			keys[f.JSON], flags[f.Flag] = true, true
		}
	}
}

// TestHints: what doors tell of an operation does not contradict itself.
func TestHints(t *testing.T) {
	for _, o := range All() {
		switch h := o.Hints; {
		case h.ReadOnly && (h.Destructive || !h.Idempotent):
			t.Errorf("%s only reads, and is %+v", o.Name, h)
		case o.Needs != 0 && !h.OpenWorld && !h.ReadOnly && !o.Local && o.Name != "alter_privileges":
			t.Errorf("%s needs a privilege, and stays in a sandbox", o.Name)
		case o.Lasting && o.Local:
			t.Errorf("%s is for no door", o.Name)
		}
	}
}

func operation(t testing.TB, name string) op.Op {
	t.Helper()
	for _, o := range All() {
		if o.Name == name {
			return o
		}
	}
	t.Fatalf("there is no operation %s", name)
	return op.Op{}
}

// An output has a text for models of its own, or the one for people: never one that an
// embedded part of it brought along.
func TestTellersAreTheirOwn(t *testing.T) {
	for _, part := range []any{op.Left{}, exec.Ended{}, policy.Isolation{}} {
		if _, is := part.(op.Teller); is {
			t.Errorf("%T tells of itself, and so does what embeds it", part)
		}
	}
}
