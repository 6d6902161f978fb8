package policy

import "testing"

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
