package redact

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/paddock-dev/paddock/policy"
)

// BlockedText returns the text that replaces an output with a match of a rule that blocks.
func BlockedText(rule string) string { return "Output blocked: detected " + rule + "." }

// replacement appends the replacement of a match. If it replaces several that overlap, no
// part of them stays.
func (r *rule) replacement(out, text []byte, several bool) []byte {
	switch {
	case r.Strategy == policy.StrategyHash:
		sum := sha256.Sum256(text)
		out = append(append(out, '<'), r.Name...)
		out = hex.AppendEncode(append(out, "_hash:"...), sum[:4])
		return append(out, '>')
	case r.Strategy == policy.StrategyMask && !several:
		return r.mask(out, text)
	default:
		out = append(append(out, "[REDACTED_"...), strings.ToUpper(r.Name)...)
		return append(out, ']')
	}
}

// mask appends a match without its telling part.
func (r *rule) mask(out, text []byte) []byte {
	switch r.Type {
	case policy.RedactEmail: // its first letter and the domain
		at := bytes.LastIndexByte(text, '@')
		if text[0] < 0x80 {
			out = append(out, text[0])
		}
		return append(append(out, "***"...), text[at:]...)
	case policy.RedactCreditCard: // the last four digits, and the separators
		digits := 0
		for _, b := range text {
			if isDigit(b) {
				digits++
			}
		}
		return stars(out, text, digits-4, isDigit)
	case policy.RedactIP: // the network: half of an IPv4 address, the first group of IPv6
		if colon := bytes.IndexByte(text, ':'); colon >= 0 {
			return append(append(out, text[:colon]...), ":****"...)
		}
		point := bytes.IndexByte(text, '.')
		point += 1 + bytes.IndexByte(text[point+1:], '.')
		return append(append(out, text[:point]...), ".*.*"...)
	case policy.RedactMACAddress: // the maker, which is the first half
		n := 0
		for i, b := range text {
			if isHex(b) {
				n++
			}
			if n > macDigits/2 {
				return stars(append(out, text[:i]...), text[i:], macDigits/2, isHex)
			}
		}
		return append(out, text...)
	case policy.RedactURL:
		return maskURL(out, text)
	default:
		return append(out, "****"...)
	}
}

// stars appends a text with stars for its first n bytes of a kind.
func stars(out, text []byte, n int, kind func(byte) bool) []byte {
	for _, b := range text {
		if n > 0 && kind(b) {
			n--
			b = '*'
		}
		out = append(out, b)
	}
	return out
}

// maskURL keeps scheme, host and port.
func maskURL(out, text []byte) []byte {
	begin := bytes.Index(text, []byte("://")) + 3
	end := begin
	for end < len(text) && !strings.ContainsRune("/?#", rune(text[end])) {
		end++
	}
	out = append(out, text[:begin]...)
	host := text[begin:end]
	if at := bytes.LastIndexByte(host, '@'); at >= 0 {
		out = append(out, "***@"...)
		host = host[at+1:]
	}
	if out = append(out, host...); end < len(text) {
		out = append(append(out, text[end]), "***"...)
	}
	return out
}
