package mcp

import (
	"maps"
	"slices"
)

// BriefFields are the fields of each brief.
func BriefFields() map[string][]string {
	all := map[string][]string{}
	for name, b := range briefs {
		all[name] = slices.Sorted(maps.Keys(b.fields))
	}
	return all
}
