package redact

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/paddock-dev/paddock/policy"
)

// BlockedText is what stands for an output with a match of a rule that blocks.
func BlockedText(rule string) string { return "Output blocked: detected " + rule + "." }

// replacement appends what stands for a match. Where it stands for several
// that overlap, no part of them stays.
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

// mask appends a match without what tells most.
func (r *rule) mask(out, text []byte) []byte {
	switch r.Type {
	case policy.RedactEmail: // its first letter and the domain
		at := bytes.LastIndexByte(text, '@')
		if text[0] < 0x80 {
			out = append(out, text[0])
		}
		return append(append(out, "***"...), text[at:]...)
	case policy.RedactCreditCard: // the last four digits, and the separators
		return stars(out, text, countDigits(text)-4, isDigit)
	case policy.RedactIP:
		return maskIP(out, text)
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
	case policy.RedactURL: // scheme, host and port
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

func countDigits(text []byte) (n int) {
	for _, b := range text {
		if isDigit(b) {
			n++
		}
	}
	return n
}

// maskIP keeps the network: half of an address of IPv4, a group of IPv6.
func maskIP(out, text []byte) []byte {
	if colon := bytes.IndexByte(text, ':'); colon >= 0 {
		return append(append(out, text[:colon]...), ":****"...)
	}
	point := bytes.IndexByte(text, '.')
	point += 1 + bytes.IndexByte(text[point+1:], '.')
	return append(append(out, text[:point]...), ".*.*"...)
}

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
