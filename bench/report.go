//go:build linux

package main

import (
	"cmp"
	"fmt"
	"io"
	"time"
)

// report is everything that was found out.
type report struct {
	Facts    []fact    `json:"facts"`
	Tables   []table   `json:"tables"`
	Promises []promise `json:"promises"`
	Wrong    []string  `json:"wrong,omitempty"` // results that were not as they should be
}

// table is what one measurement found.
type table struct {
	Title string `json:"title"`
	Rows  []row  `json:"rows"`
}

// row is one case of a measurement.
type row struct {
	Name   string  `json:"name"`
	Median float64 `json:"median,omitempty"`
	P90    float64 `json:"p90,omitempty"`
	Unit   string  `json:"unit,omitempty"`
	Ratio  float64 `json:"ratio,omitempty"` // to the table's baseline
	Note   string  `json:"note,omitempty"`
	Absent string  `json:"absent,omitempty"` // why it was not measured
}

func (t *table) print(w io.Writer) {
	fmt.Fprintf(w, "\n%s\n  %-38s %13s %13s %8s\n", t.Title, "", "median", "p90", "ratio")
	for _, r := range t.Rows {
		if r.Absent != "" {
			fmt.Fprintf(w, "  %-38s not measured: %s\n", r.Name, r.Absent)
			continue
		}
		fmt.Fprintf(w, "  %-38s %13s %13s %8s", r.Name, number(r.Median, r.Unit), number(r.P90, r.Unit), number(r.Ratio, "×"))
		if r.Note != "" {
			fmt.Fprintf(w, "  %s", r.Note)
		}
		fmt.Fprintln(w)
	}
}

// number prints a value, and nothing for one that is not known.
func number(v float64, unit string) string {
	switch {
	case v == 0:
		return ""
	case unit == "/s":
		return fmt.Sprintf("%.0f%s", v, unit)
	case unit == "µs":
		return fmt.Sprintf("%.0f %s", v, unit)
	default:
		return fmt.Sprintf("%.2f %s", v, unit)
	}
}

// times makes a table of cases, with ratios to the base case's median.
func times(title string, unit time.Duration, base *benchCase, cases ...*benchCase) table {
	t := table{Title: title}
	for _, c := range cases {
		t.Rows = append(t.Rows, row{
			Name: c.name, Absent: c.absent, Note: c.note,
			Median: float64(c.sample.median()) / float64(unit),
			P90:    float64(c.sample.quantile(0.9)) / float64(unit),
			Unit:   unitNames[unit],
			Ratio:  ratio(c.sample.median(), base.sample.median()),
		})
	}
	return t
}

var unitNames = map[time.Duration]string{time.Microsecond: "µs", time.Millisecond: "ms", time.Second: "s"}

// promise is a number that SPEC.md bounds.
type promise struct {
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Bound  string  `json:"bound"` // "≤" or "≥"
	Limit  float64 `json:"limit"`
	Unit   string  `json:"unit"`
	Holds  bool    `json:"holds"`
	Absent string  `json:"absent,omitempty"` // why it was not measured
}

func atMost(name string, value, limit float64, unit string) promise {
	return promise{Name: name, Value: value, Bound: "≤", Limit: limit, Unit: unit, Holds: value <= limit}
}

func atLeast(name string, value, limit float64, unit string) promise {
	return promise{Name: name, Value: value, Bound: "≥", Limit: limit, Unit: unit, Holds: value >= limit}
}

// unless says why the value is none, where why is not empty.
func (p promise) unless(why string) promise {
	if why != "" {
		p.Absent, p.Holds = why, false
	}
	return p
}

func (p promise) verdict() string {
	switch {
	case p.Absent != "":
		return "not measured: " + p.Absent
	case p.Holds:
		return "yes"
	default:
		return "NO"
	}
}

func printPromises(w io.Writer, promises []promise) {
	if len(promises) == 0 {
		return
	}
	fmt.Fprintf(w, "\npromises of SPEC.md\n  %-58s %11s %14s  holds\n", "", "measured", "limit")
	for _, p := range promises {
		value := "-"
		if p.Absent == "" {
			value = cmp.Or(number(p.Value, p.Unit), "0")
		}
		limit := p.Bound + " " + cmp.Or(number(p.Limit, p.Unit), "0")
		fmt.Fprintf(w, "  %-58s %11s %14s  %s\n", p.Name, value, limit, p.verdict())
	}
}
