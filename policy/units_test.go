package policy

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]Size{
		"0":                      0,
		"0B":                     0,
		"4096":                   4096,
		"4096B":                  4096,
		"512MiB":                 512 << 20,
		"1 GiB":                  1 << 30,
		"1KB":                    1000,
		"1MB":                    1e6,
		"1GB":                    1e9,
		"1TB":                    1e12,
		"1TiB":                   1 << 40,
		"1.5GiB":                 3 << 29,
		"1.0B":                   1,
		"1.3KiB":                 1331, // 1331.2
		"0.000000000001TB":       1,
		"8388607.999999TiB":      9223372036853676296,
		"9223372036854775807":    math.MaxInt64,
		"007KiB":                 7 << 10,
		"1.000000000000000000TB": 1e12,
	} {
		if got, err := ParseSize(text); got != want || err != nil {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
}

func TestParseSizeErrors(t *testing.T) {
	const units = "the units are B, KiB, MiB, GiB, TiB, KB, MB, GB and TB"
	for _, tt := range []struct{ text, err, hint string }{
		{"", `cannot use size: it is empty`, ""},
		{" ", `cannot use size " ": it does not start with a number`, ""},
		{"MiB", `cannot use size "MiB": it does not start with a number`, ""},
		{"NaN", `cannot use size "NaN": it does not start with a number`, ""},
		{"+1", `cannot use size "+1": it does not start with a number`, ""},
		{".5GiB", `cannot use size ".5GiB": it does not start with a number`, ""},
		{"-1MiB", `cannot use size "-1MiB": it must not be negative`, ""},
		{"5M", `cannot use size "5M": unit "M" is ambiguous`, `write "5MiB" (powers of 1024) or "5MB" (powers of 1000)`},
		{"1.5 g", `cannot use size "1.5 g": unit "g" is ambiguous`, `write "1.5GiB" (powers of 1024) or "1.5GB" (powers of 1000)`},
		{"5mib", `cannot use size "5mib": unknown unit "mib"`, `did you mean "5MiB"?`},
		{"5kB", `cannot use size "5kB": unknown unit "kB"`, `did you mean "5KB"?`},
		{"12 parsecs", `cannot use size "12 parsecs": unknown unit "parsecs"`, units},
		{"1e3", `cannot use size "1e3": unknown unit "e3"`, units},
		{"1EiB", `cannot use size "1EiB": unknown unit "EiB"`, units},
		{"1\x00", `cannot use size "1\x00": unknown unit "\x00"`, units},
		{"1.MiB", `cannot use size "1.MiB": a digit must follow the point`, ""},
		{"1 ", `cannot use size "1 ": it ends with a space`, ""},
		{"1.5", `cannot use size "1.5": a byte cannot be divided`, ""},
		{"0.0001KiB", `cannot use size "0.0001KiB": a byte cannot be divided`, ""},
		{"0.1234567890123456789TB", `cannot use size "0.1234567890123456789TB": it has more than 18 decimals`, ""},
		{"9223372036854775808", `cannot use size "9223372036854775808": it is more than 8 EiB - 1 byte`, ""},
		{"8388608TiB", `cannot use size "8388608TiB": it is more than 8 EiB - 1 byte`, ""},
		{"99999999999999999999999TiB", `cannot use size "99999999999999999999999TiB": it is more than 8 EiB - 1 byte`, ""},
	} {
		_, err := ParseSize(tt.text)
		checkFieldError(t, err, tt.err, tt.hint)
	}
}

func TestSizeString(t *testing.T) {
	for size, want := range map[Size]string{
		0: "0B", 1: "1B", 1023: "1023B", 1000: "1KB", 1024: "1KiB", 1536: "1536B",
		3 << 29: "1536MiB", 5e9: "5GB", 1 << 40: "1TiB", math.MaxInt64: "9223372036854775807B",
	} {
		if got := size.String(); got != want {
			t.Errorf("Size(%d) = %q, want %q", int64(size), got, want)
		}
	}
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]string{
		"90s": "1m30s", "1h30m": "1h30m0s", "+5ms": "5ms", ".5s": "500ms", "1.s": "1s",
		"0s": "0s", "3us": "3µs", "3µs": "3µs", "3μs": "3µs",
	} {
		got, err := ParseDuration(text)
		if err != nil || got.String() != want {
			t.Errorf("ParseDuration(%q) = %v, %v; want %s", text, got, err, want)
		}
	}
}

func TestParseDurationErrors(t *testing.T) {
	const units = "the units are h, m, s, ms, us and ns, as in 1h30m"
	for _, tt := range []struct{ text, err, hint string }{
		{"", `cannot use duration: it is empty`, ""},
		{"30", `cannot use duration "30": a unit is missing`, `did you mean "30s"?`},
		{"30 ", `cannot use duration "30 ": a unit is missing`, `did you mean "30s"?`},
		{"0", `cannot use duration "0": a unit is missing`, `did you mean "0s"?`},
		{"1h30", `cannot use duration "1h30": a unit is missing`, `did you mean "30s"?`},
		{"1.2.3s", `cannot use duration "1.2.3s": a unit is missing`, `did you mean "1.2s"?`},
		{"30 s", `cannot use duration "30 s": it contains a space`, `did you mean "30s"?`},
		{"1h 30m", `cannot use duration "1h 30m": it contains a space`, `did you mean "1h30m"?`},
		{"-5s", `cannot use duration "-5s": it must not be negative`, ""},
		{"+", `cannot use duration "+": it does not start with a number`, units},
		{"+-5s", `cannot use duration "+-5s": it does not start with a number`, units},
		{"NaN", `cannot use duration "NaN": it does not start with a number`, units},
		{".s", `cannot use duration ".s": it does not start with a number`, units},
		{"5 parsecs", `cannot use duration "5 parsecs": unknown unit "parsecs"`, units},
		{"2d", `cannot use duration "2d": unknown unit "d"`, units},
		{"0.1ns", `cannot use duration "0.1ns": it is shorter than 1ns`, ""},
		{"2562048h", `cannot use duration "2562048h": it is longer than 292 years`, ""},
		{"99999999999999999999h", `cannot use duration "99999999999999999999h": it is longer than 292 years`, ""},
	} {
		_, err := ParseDuration(tt.text)
		checkFieldError(t, err, tt.err, tt.hint)
	}
}

// checkFieldError compares text and hint of an error that is one FieldError.
func checkFieldError(t *testing.T, err error, text, hint string) {
	t.Helper()
	var field *FieldError
	if !errors.As(err, &field) {
		t.Errorf("error = %v, want %s", err, text)
		return
	}
	if err.Error() != text || field.Hint != hint {
		t.Errorf("error:\n got %s\nhint %s\nwant %s\nhint %s", err, field.Hint, text, hint)
	}
}

func TestUnitsAsJSON(t *testing.T) {
	in := Limits{Timeout: Duration(90e9), Output: 1536, Tmp: 1 << 30}
	data, err := json.Marshal(in)
	if want := `{"timeout":"1m30s","output":"1536B","tmp":"1GiB"}`; err != nil || string(data) != want {
		t.Fatalf("Marshal = %s, %v; want %s", data, err, want)
	}
	var out Limits
	if err := json.Unmarshal(data, &out); err != nil || out != in {
		t.Fatalf("Unmarshal = %+v, %v; want %+v", out, err, in)
	}
	if err := json.Unmarshal([]byte(`{"output":4096,"tmp":null}`), &out); err != nil || out.Output != 4096 || out.Tmp != 1<<30 {
		t.Errorf("Unmarshal of a number = %+v, %v", out, err)
	}
	for doc, want := range map[string]string{
		`{"timeout":30}`:    "cannot unmarshal number",
		`{"timeout":"30"}`:  "a unit is missing",
		`{"output":1.5}`:    "a byte cannot be divided",
		`{"output":-1}`:     "must not be negative",
		`{"output":1e3}`:    `unknown unit "e3"`,
		`{"output":true}`:   "does not start with a number",
		`{"output":[]}`:     "does not start with a number",
		`{"output":"\u00"}`: "invalid character",
	} {
		if err := json.Unmarshal([]byte(doc), &out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Unmarshal(%s): %v, want %q", doc, err, want)
		}
	}
}

func FuzzParseSize(f *testing.F) {
	for _, seed := range []string{"", "0", "1.5GiB", "5M", "-1", "9223372036854775807", "8388607.999999999999999999TiB", "1 B"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		size, err := ParseSize(text)
		if err != nil {
			checkBounded(t, err)
			return
		}
		if size < 0 {
			t.Fatalf("ParseSize(%q) = %d", text, int64(size))
		}
		if again, err := ParseSize(size.String()); again != size || err != nil {
			t.Fatalf("ParseSize(%q) = %d, %v; want %d", size.String(), again, err, size)
		}
	})
}

func FuzzParseDuration(f *testing.F) {
	for _, seed := range []string{"", "0", "1h30m", "30 s", "-1s", ".5us", "1.2.3s", "2562047h47m16.854775807s", "+1µs"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDuration(text)
		if err != nil {
			checkBounded(t, err)
			return
		}
		if d < 0 {
			t.Fatalf("ParseDuration(%q) = %d", text, int64(d))
		}
		if again, err := ParseDuration(d.String()); again != d || err != nil {
			t.Fatalf("ParseDuration(%q) = %d, %v; want %d", d, again, err, d)
		}
	})
}

// checkBounded sees to it that an error stays one short line whatever was parsed.
func checkBounded(t *testing.T, err error) {
	t.Helper()
	var field *FieldError
	if !errors.As(err, &field) {
		t.Fatalf("%T is no FieldError", err)
	}
	if text := err.Error() + field.Hint; len(text) > 2000 || strings.Contains(text, "\n") {
		t.Fatalf("the error is long or has several lines: %q", text)
	}
}

func TestParseCPUs(t *testing.T) {
	for text, want := range map[string]CPUs{"1": 1000, "0.5": 500, "1.25": 1250, "12.125": 12125, "0": 0, "00.010": 10} {
		got, err := ParseCPUs(text)
		if err != nil || got != want {
			t.Errorf("%q is %d, %v; want %d", text, got, err, want)
		}
		if again, err := ParseCPUs(got.String()); err != nil || again != got {
			t.Errorf("%q is written as %q, which is %d, %v", text, got, again, err)
		}
	}
	for text, want := range map[string]string{
		"": "it is empty", "-1": "it must not be negative", "x": "it is not a decimal number", "1.": "it is not a decimal number",
		".5": "it is not a decimal number", "1e3": "it is not a decimal number", "0.0001": "it has more than 3 decimals",
		"9999999999999999999": "it is too large", "1\t": "it is not a decimal number",
	} {
		_, err := ParseCPUs(text)
		fields := FieldErrors(err)
		if len(fields) != 1 || fields[0].Reason != want {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
