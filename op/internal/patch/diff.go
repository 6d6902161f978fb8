package patch

import (
	"fmt"
	"strings"
)

// maxSteps bounds the search for a short diff, in lines that differ; texts that
// differ in more are shown as one change.
const maxSteps = 600

// around is how many lines of context a diff has.
const around = 3

// diffLine is a line of one text or of both, and how many lines of each come before it.
type diffLine struct {
	op       byte
	text     string
	old, new int
}

// Diff returns the unified diff of a file's two texts, without a header that names
// the file. It is empty if they are the same.
func Diff(before, after []byte) string {
	all := diffLines(lines(before), lines(after))
	var out strings.Builder
	for at := 0; at < len(all); {
		for at < len(all) && all[at].op == ' ' {
			at++
		}
		if at == len(all) {
			break
		}
		from, last := max(0, at-around), at
		for ; at < len(all) && at-last <= 2*around; at++ {
			if all[at].op != ' ' {
				last = at
			}
		}
		at = last + 1
		writeHunk(&out, all[from:min(len(all), at+around)])
	}
	return out.String()
}

func writeHunk(out *strings.Builder, hunk []diffLine) {
	before, after := 0, 0
	for _, l := range hunk {
		if l.op != '+' {
			before++
		}
		if l.op != '-' {
			after++
		}
	}
	fmt.Fprintf(out, "@@ -%s +%s @@\n", span(hunk[0].old, before), span(hunk[0].new, after))
	for _, l := range hunk {
		out.WriteByte(l.op)
		out.WriteString(l.text)
		if !strings.HasSuffix(l.text, "\n") {
			out.WriteString("\n\\ No newline at end of file\n")
		}
	}
}

// span returns a place as headers of hunks have it; from is how many lines come before.
func span(from, n int) string {
	if n > 0 {
		from++
	}
	return fmt.Sprintf("%d,%d", from, n)
}

// diffLines returns the lines of two texts in one order.
func diffLines(a, b []string) []diffLine {
	words := &words{numbers: make(map[string]int32)}
	same := pairs(words.number(a), words.number(b))
	var all []diffLine
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && same[i] < 0:
			all = append(all, diffLine{'-', a[i], i, j})
			i++
		case i < len(a) && same[i] == j:
			all = append(all, diffLine{' ', a[i], i, j})
			i, j = i+1, j+1
		default:
			all = append(all, diffLine{'+', b[j], i, j})
			j++
		}
	}
	return all
}

// pairs returns for each line of a which line of b it is, or -1.
func pairs(a, b []int32) []int {
	same := make([]int, len(a))
	for i := range same {
		same[i] = -1
	}
	first := 0
	for first < len(a) && first < len(b) && a[first] == b[first] {
		same[first] = first
		first++
	}
	n, m := len(a), len(b)
	for n > first && m > first && a[n-1] == b[m-1] {
		n, m = n-1, m-1
		same[n] = m
	}
	shortest(a[first:n], b[first:m], func(i, j int) { same[first+i] = first + j })
	return same
}

// shortest finds a shortest way from a to b (E. Myers, "An O(ND) difference
// algorithm", 1986), and calls stays for the lines that both have; for none if the
// way is too long.
func shortest(a, b []int32, stays func(i, j int)) {
	far := map[int]int{1: 0} // how far in a, by the difference of the two places
	var trace []map[int]int
	for d := 0; d <= min(len(a)+len(b), maxSteps); d++ {
		now := make(map[int]int, d+1)
		for k := -d; k <= d; k += 2 {
			x := far[k-1] + 1
			if k == -d || k != d && far[k-1] < far[k+1] {
				x = far[k+1]
			}
			for x < len(a) && x-k < len(b) && a[x] == b[x-k] {
				x++
			}
			now[k] = x
			if x >= len(a) && x-k >= len(b) {
				back(append(trace, now), len(a), len(b), stays)
				return
			}
		}
		trace = append(trace, now)
		far = now
	}
}

// back follows the way that was found from its end, and calls stays for the lines that both have.
func back(trace []map[int]int, x, y int, stays func(i, j int)) {
	for d := len(trace) - 1; d >= 0; d-- {
		k := x - y
		px, py := 0, 0
		if d > 0 {
			before := trace[d-1]
			pk := k - 1
			if k == -d || k != d && before[k-1] < before[k+1] {
				pk = k + 1
			}
			px = before[pk]
			py = px - pk
		}
		for x > px && y > py {
			x, y = x-1, y-1
			stays(x, y)
		}
		x, y = px, py
	}
}
