package wire

import "github.com/paddock-dev/paddock/internal/osstring"

// OSString is a path, an argument, or the value of a variable: any bytes but NUL. In JSON a byte
// that is not part of a character, 0x80 to 0xff, is the lone surrogate U+DC80 to U+DCFF (Python's
// PEP 383, "surrogateescape"). So every path that an agent sends names its file when it is sent
// back.
type OSString = osstring.String

// OSStrings is a list of arguments or paths.
type OSStrings = osstring.List

// OSEnv is an environment: variables by name.
type OSEnv = osstring.Map
