package confine

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fill gives everything that can be reached from v a distinct value, except
// what only people read.
func fill(v reflect.Value, n *uint64) {
	*n++
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Struct:
		for i := range v.NumField() {
			if !slices.Contains([]string{"Why", "Command", "LeftOut", "GroupLimits", "Toolchains", "Caches", "LayeredCaches", "Home", "Downloads"}, v.Type().Field(i).Name) { // which do not cross
				fill(v.Field(i), n)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 3, 3))
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{fmt.Sprint(*n): "x", "": fmt.Sprint(*n)}))
	case reflect.String:
		v.SetString(fmt.Sprintf("text %d\x00\xff", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8:
		v.SetUint(*n % 256)
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(*n)
	case reflect.Int, reflect.Int64:
		v.SetInt(-int64(*n))
	default:
		panic("the codec's test does not know " + v.Type().String())
	}
}

func filled[T any]() *T {
	var n uint64
	v := new(T)
	fill(reflect.ValueOf(v).Elem(), &n)
	return v
}

func TestBootKeepsEverything(t *testing.T) {
	for name, want := range map[string]*Boot{
		"full":        filled[Boot](),
		"empty":       {Plan: &Plan{}},
		"empty lists": {Plan: &Plan{Namespaces: []Namespace{}, Env: map[string]string{}, Setup: []Step{{Data: []byte{}, Flags: []string{}}}}},
	} {
		var b bytes.Buffer
		if err := want.Write(&b); err != nil {
			t.Fatal(err)
		}
		b.WriteString("beyond")
		got, err := ReadBoot(&b)
		if err != nil || b.String() != "beyond" {
			t.Fatalf("%s: %v, and %q is left", name, err, b.String())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestBootedKeepsEverything(t *testing.T) {
	for _, want := range []*Booted{filled[Booted](), {}} {
		var b bytes.Buffer
		if err := want.Write(&b); err != nil {
			t.Fatal(err)
		}
		got, err := ReadBooted(&b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

// What only people read stays behind, and in the plan.
func TestBootWithoutReasons(t *testing.T) {
	var b bytes.Buffer
	p := &Plan{Setup: []Step{{Do: OpPivot, Why: "a reason"}}}
	if err := (&Boot{Plan: p}).Write(&b); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "reason") || p.Setup[0].Why == "" {
		t.Errorf("sent %q of %+v", b.String(), p)
	}
}

// A plan of another version cannot be read, but its version can.
func TestBootOfAnotherVersion(t *testing.T) {
	var b bytes.Buffer
	if err := (&Boot{Protocol: 7, Build: "other", Plan: somePlan()}).Write(&b); err != nil {
		t.Fatal(err)
	}
	more := append(b.Bytes(), 1)
	more[prefix-1]++
	got, err := ReadBoot(bytes.NewReader(more))
	if err != nil || got.Protocol != 7 || got.Build != "other" || got.Plan != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestBootBounds(t *testing.T) {
	if err := (&Boot{Plan: &Plan{Workspace: strings.Repeat("x", maxBoot)}}).Write(io.Discard); err == nil {
		t.Error("a message beyond the bound was sent")
	}
	for name, in := range map[string]string{
		"beyond the bound":  "\xff\xff\xff\xff",
		"a line of JSON":    `{"protocol":1}` + "\n",
		"cut short":         "\x00\x00\x00\x10x",
		"no message":        "\x00\x00",
		"an endless number": "\x00\x00\x00\x0c" + strings.Repeat("\xff", 12),
	} {
		if got, err := ReadBoot(strings.NewReader(in)); err == nil {
			t.Errorf("%s: read as %+v", name, got)
		}
		if got, err := ReadBooted(strings.NewReader(in)); err == nil {
			t.Errorf("%s: read as %+v", name, got)
		}
	}
}

// Any input is refused, or decodes to a message that encodes to it.
func FuzzBoot(f *testing.F) {
	for _, b := range []*Boot{filled[Boot](), {Plan: somePlan()}, {Plan: &Plan{}}} {
		var out bytes.Buffer
		if err := b.Write(&out); err != nil {
			f.Fatal(err)
		}
		f.Add(out.Bytes())
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := ReadBoot(bytes.NewReader(in))
		if err != nil || got.Plan == nil {
			return
		}
		var out bytes.Buffer
		if err := got.Write(&out); err != nil {
			t.Fatal(err)
		}
		again, err := ReadBoot(&out)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, again) {
			t.Errorf("%+v was read again as %+v", got, again)
		}
	})
}

// The answer comes from inside the wall.
func FuzzBooted(f *testing.F) {
	for _, b := range []*Booted{filled[Booted](), {}} {
		var out bytes.Buffer
		if err := b.Write(&out); err != nil {
			f.Fatal(err)
		}
		f.Add(out.Bytes())
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := ReadBooted(bytes.NewReader(in))
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := got.Write(&out); err != nil {
			t.Fatal(err)
		}
		again, err := ReadBooted(&out)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, again) {
			t.Errorf("%+v was read again as %+v", got, again)
		}
	})
}
