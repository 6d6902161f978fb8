package specfile

import (
	"fmt"

	"github.com/paddock-dev/paddock/policy"
)

// LoadCeiling reads a ceiling from the file at path, as strictly as a spec, and
// validates it. An error about the file's words is a [*policy.FieldError], or
// joins several.
func LoadCeiling(path string) (*policy.Ceiling, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the ceiling: %w", err)
	}
	return DecodeCeiling(path, data)
}

// DecodeCeiling is LoadCeiling for what was read already. The name is as for
// [Decode].
func DecodeCeiling(name string, data []byte) (*policy.Ceiling, error) {
	file := &File{name: name, lines: map[string]int{}}
	var c policy.Ceiling
	if err := parse(name, data, &c, file.lines); err != nil {
		return nil, err
	}
	if err := c.Validate(); err != nil {
		return nil, file.Locate(err)
	}
	return &c, nil
}
