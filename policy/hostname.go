package policy

import "strings"

// maxHostname is the kernel's bound (HOST_NAME_MAX), in bytes.
const maxHostname = 64

// hostname checks a name by RFC 1123.
func (r *resolver) hostname(name *string) {
	if *name == "" {
		*name = DefaultHostname
	}
	if len(*name) > maxHostname {
		r.refuse("hostname", *name, "it is longer than 64 bytes", "")
		return
	}
	for label := range strings.SplitSeq(*name, ".") {
		if reason := checkLabel(label); reason != "" {
			r.refuse("hostname", *name, reason, "")
			return
		}
	}
}

func checkLabel(label string) (reason string) {
	if label == "" {
		return "a part between dots is empty"
	}
	if len(label) > 63 {
		return "a part between dots is longer than 63 bytes"
	}
	for i := 0; i < len(label); i++ {
		c := label[i]
		if !isLetter(c) && !isDigit(c) && c != '-' {
			return "a host name is letters, digits, hyphens and dots"
		}
	}
	if label[0] == '-' || label[len(label)-1] == '-' {
		return "a part between dots starts or ends with a hyphen"
	}
	return ""
}
