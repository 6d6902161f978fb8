package policy

import "strings"

// Nearest returns the name of known that was probably meant by a word, which is none
// of them: the first that is at most two changes away. Empty: none is so near.
func Nearest(word string, known []string) (name string) {
	least, word := 3, strings.ToLower(word)
	for _, k := range known {
		if d := distance(word, k); d < least && d < len(k) {
			name, least = k, d
		}
	}
	return name
}

// distance counts the insertions, deletions, changes and swaps of neighbours
// that lead from a to b, or tells a large number where the lengths alone say
// that the two are far apart.
func distance(a, b string) int {
	if len(a) > len(b)+2 || len(b) > len(a)+2 {
		return len(a) + len(b)
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}
