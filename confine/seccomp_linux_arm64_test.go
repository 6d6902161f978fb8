package confine

var archCallNumbers = map[string]uint32{}
