package wire

import (
	"bufio"
	"errors"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReadLine(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	tests := []struct {
		name, in string
		max      int
		want     string
		err      error // io.EOF, or a code
	}{
		{name: "newline", in: "{}\nrest", max: 10, want: "{}"},
		{name: "CRLF and spaces", in: " \t{} \r\nrest", max: 20, want: "{}"},
		{name: "end of file ends a line", in: `{"a":`, max: 10, want: `{"a":`},
		{name: "empty line", in: "\n", max: 10, want: ""},
		{name: "white space and end of file", in: "  ", max: 10, want: ""},
		{name: "nothing", in: "", max: 10, err: io.EOF},
		{name: "NUL", in: "\x00\n", max: 10, want: "\x00"},
		{name: "exactly the bound", in: "1234\n", max: 5, want: "1234"},
		{name: "exactly the bound at end of file", in: "12345", max: 5, want: "12345"},
		{name: "over the bound by one", in: "12345\n", max: 5, err: Errorf(CodeTooLarge, "")},
		{name: "over the bound without newline", in: "123456", max: 5, err: Errorf(CodeTooLarge, "")},
		{name: "longer than the buffer", in: long + "\n", max: 100_001, want: long},
		{name: "longer than buffer and bound", in: long + "\n", max: 100_000, err: Errorf(CodeTooLarge, "")},
	}
	readers := map[string]func(io.Reader) io.Reader{
		"whole":        func(r io.Reader) io.Reader { return r },
		"byte by byte": iotest.OneByteReader,
		"data and EOF": iotest.DataErrReader,
	}
	for _, tt := range tests {
		for how, wrap := range readers {
			t.Run(tt.name+"/"+how, func(t *testing.T) {
				got, err := ReadLine(bufio.NewReaderSize(wrap(strings.NewReader(tt.in)), 16), tt.max)
				var code *Error
				if errors.As(tt.err, &code) {
					wantError(t, err, code.Code, "longer than")
					return
				}
				if err != tt.err || string(got) != tt.want {
					t.Fatalf("ReadLine = %.40q, %v; want %.40q, %v", got, err, tt.want, tt.err)
				}
			})
		}
	}
}

func TestReadLineKeepsTheReadersError(t *testing.T) {
	broken := errors.New("broken")
	in := io.MultiReader(strings.NewReader("half"), iotest.ErrReader(broken))
	if _, err := ReadLine(bufio.NewReader(in), 100); err != broken {
		t.Fatalf("error %v, want the reader's own", err)
	}
}

// A line that may not grow is not read on.
func TestReadLineFunc(t *testing.T) {
	full := errors.New("full")
	var sizes []int
	src := &endless{}
	_, err := ReadLineFunc(bufio.NewReader(src), 1<<20, func(begun []byte, size int) error {
		if len(begun) > size || len(begun) > 0 && 2*len(begun) > size {
			t.Errorf("from %d to %d bytes", len(begun), size)
		}
		if sizes = append(sizes, size); size > 20_000 {
			return full
		}
		return nil
	})
	if err != full || !slices.Equal(sizes, []int{4096, 8192, 16384, 32768}) || src.read > 20_480 {
		t.Errorf("%v after %v and %d bytes", err, sizes, src.read)
	}
}

func TestReadLineLeavesWhatFollows(t *testing.T) {
	br := bufio.NewReader(strings.NewReader("{}\nframes"))
	line, err := ReadLine(br, 100)
	if err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(br)
	if string(line) != "{}" || string(rest) != "frames" {
		t.Fatalf("line %q and rest %q, want {} and frames", line, rest)
	}
}

// endless returns as many bytes as are requested, and counts them.
type endless struct{ read int64 }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	e.read += int64(len(p))
	return len(p), nil
}

func TestReadLineDoesNotFollowAnEndlessLine(t *testing.T) {
	const max = 1 << 20
	src := &endless{}
	br := bufio.NewReader(src)
	used := allocated(func() {
		_, err := ReadLine(br, max)
		wantError(t, err, CodeTooLarge, "longer than 1048576 bytes")
	})
	if used > 3*max {
		t.Errorf("reading allocated %d bytes in all, want at most %d", used, 3*max)
	}
	if src.read > max+8192 {
		t.Errorf("%d bytes were read, want about %d", src.read, max)
	}
}

// allocated gives how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// writes keeps what each Write got.
type writes struct {
	got []string
	err error
}

func (w *writes) Write(p []byte) (int, error) {
	w.got = append(w.got, string(p))
	return len(p), w.err
}

func TestWriteLine(t *testing.T) {
	w := &writes{}
	if err := WriteLine(w, map[string]string{"a": "<&>\n\u2028é"}); err != nil {
		t.Fatal(err)
	}
	want := `{"a":"<&>\n\u2028é"}` + "\n"
	if len(w.got) != 1 || w.got[0] != want {
		t.Fatalf("writes %q, want one: %q", w.got, want)
	}
}

func TestWriteLineErrors(t *testing.T) {
	w := &writes{}
	wantError(t, WriteLine(w, strings.Repeat("x", MaxLine)), CodeTooLarge, "more than 16777216")
	if err := WriteLine(w, math.NaN()); err == nil || !strings.HasPrefix(err.Error(), "cannot encode the line: ") {
		t.Errorf("error %v for a value without JSON", err)
	}
	if len(w.got) != 0 {
		t.Errorf("a failed line wrote %.40q", w.got)
	}
	w.err = io.ErrClosedPipe
	if err := WriteLine(w, 1); err != io.ErrClosedPipe {
		t.Errorf("error %v, want the writer's own", err)
	}
}
