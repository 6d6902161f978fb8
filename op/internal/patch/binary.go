package patch

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // git names contents so; what is compared is no secret
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// minName is how much of git's name of a content is enough to know it.
const minName = 7

// patched applies binary data, which replaces a file as a whole: the content
// before must be what the patch was made from.
func (c *change) patched(content []byte) ([]byte, error) {
	if len(c.before) < minName || len(c.after) < minName {
		return nil, errors.New("there is no index line that names the contents of the binary file")
	}
	if !c.create && !isNamed(content, c.before) {
		return nil, errors.New("the binary file is not the one that the patch was made from")
	}
	var out bytes.Buffer
	file := &gitdiff.File{IsBinary: true, BinaryFragment: c.binary}
	if err := gitdiff.Apply(&out, bytes.NewReader(content), file, gitdiff.WithMaxBinaryFragmentBytes(MaxFile)); err != nil {
		return nil, fmt.Errorf("its binary data cannot be used: %v", err)
	}
	if !c.remove && !isNamed(out.Bytes(), c.after) {
		return nil, errors.New("its binary data does not make the content that the patch names")
	}
	return out.Bytes(), nil
}

// isNamed reports whether a content has a name that begins so.
func isNamed(content []byte, name string) bool {
	h := sha1.New() //nolint:gosec // see the import
	if len(name) > hex.EncodedLen(sha1.Size) {
		h = sha256.New()
	}
	fmt.Fprintf(h, "blob %d\x00", len(content))
	h.Write(content)
	return strings.HasPrefix(hex.EncodeToString(h.Sum(nil)), strings.ToLower(name))
}
