//go:build linux

package main

import (
	"slices"
	"time"
)

// sample is what the runs of one case took.
type sample []time.Duration

// quantile is the smallest value that at least the share q of all values does
// not exceed (the nearest rank); 0 for an empty sample.
func (s sample) quantile(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	rank := int(q * float64(len(s)))
	if float64(rank) < q*float64(len(s)) {
		rank++
	}
	return sorted[min(max(rank, 1), len(s))-1]
}

// median is the middle value, or the mean of the two in the middle.
func (s sample) median() time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return (sorted[(len(s)-1)/2] + sorted[len(s)/2]) / 2
}

func (s sample) max() time.Duration {
	if len(s) == 0 {
		return 0
	}
	return slices.Max(s)
}

// ratio is a ÷ b, and 0 where there is nothing to divide by.
func ratio(a, b time.Duration) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}
