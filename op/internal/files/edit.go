package files

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/patch"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// maxDiff bounds the diff in an answer, in characters.
const maxDiff = 8000

// FileEdit is one replacement.
type FileEdit struct {
	Old string `json:"old" help:"the exact text to replace, with its white space and enough context to occur only once; empty: create a file with the content of new" max:"4194304"`
	New string `json:"new" help:"the replacement; empty to remove the old text" max:"4194304"`
	All bool   `json:"all,omitempty" help:"replace every occurrence, not only one"`
}

type FileEditInput struct {
	op.InSandbox
	Edits []FileEdit      `json:"edits" flag:"edit" arg:"JSON" help:"a replacement, {\"old\": TEXT, \"new\": TEXT, \"all\": BOOL}; they are made in order (may be repeated)" min:"1" max:"500"`
	Path  osstring.String `json:"path" arg:"PATH" help:"the file, relative to the workspace or below /workspace" max:"4096"`
}

type FileEditOutput struct {
	Path         osstring.String `json:"path"`
	Replacements int             `json:"replacements"`
	Created      bool            `json:"created,omitempty"`
	SizeBytes    int64           `json:"size_bytes"`
	SHA256       string          `json:"sha256"`
	// Diff is the unified diff of the change, as far as there is room. Invisible characters
	// are written as file_read shows them.
	Diff string `json:"diff"`
}

func (FileEditInput) Desc() op.Desc {
	return op.Desc{
		Name: "file_edit", CLI: []string{"file", "edit"},
		Summary: "Replace exact text in a file of the workspace",
		Doc: `Replace text in one file. Each of edits has old, the exact text with its indentation,
and new, its replacement. old must occur exactly once in the file: give more lines
around it, or set all to replace every occurrence. Edits are made in order, each in
the result of the one before, and all or none: if one does not fit, the file stays
as it was, and the error says what the file has instead. The answer has a diff.

Do not copy the line numbers that file_read shows. In a file whose lines end in CRLF,
old and new may use plain line feeds: they are taken as CRLF. A byte order mark, the
permissions, and a missing newline at the end stay as they are. With an empty old the
file is created; it must not exist, or be empty.

Read the file before you edit it. For many files at once use patch_apply.

` + filesDoc,
		Examples: `  paddock file edit --edit '{"old": "Hello", "new": "Goodbye"}' main.go`,
		Profile:  op.ProfileWorkspace,
		Hints:    changeHints,
	}
}

func (in FileEditInput) check() error {
	for i, e := range in.Edits {
		field := fmt.Sprintf("edits[%d].", i)
		switch {
		case e.Old == e.New:
			return &policy.FieldError{Field: field + "new", Reason: "it is the same as old", Hint: "leave out an edit that changes nothing"}
		case e.Old == "" && i > 0:
			return &policy.FieldError{Field: field + "old", Reason: "it is empty", Hint: "give the text to be replaced; only the first edit may make a new file"}
		}
	}
	if len(in.Edits) == 0 {
		return &policy.FieldError{Field: "edits", Reason: "it is missing"}
	}
	return op.CheckPath("path", in.Path)
}

func (in FileEditInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out FileEditOutput, err error) {
	if err := in.check(); err != nil {
		return out, err
	}
	err = inFiles(ctx, env, in.InSandbox, true, func(ctx context.Context, s *registry.Sandbox) error {
		old, err := load(ctx, s, in.Path)
		create := missing(err) && in.Edits[0].Old == ""
		switch {
		case create:
			old = &content{}
		case err != nil:
			return fileError("edit", in.Path, err)
		}
		data, n, err := in.apply(old.bytes, env.Budget > 0)
		if err != nil {
			return err
		}
		if len(data) > maxContent {
			return &paddock.Error{Code: wire.CodeTooLarge, Message: fmt.Sprintf("cannot edit %s: it would have more than %d bytes", in.Path, maxContent)}
		}
		var r wire.WriteFileResult
		if create {
			r, err = saveNew(ctx, s, in.Path, data, nil)
		} else if err = unchanged(ctx, s, in.Path, old); err == nil {
			r, err = save(ctx, s, in.Path, data, nil)
		}
		if err != nil {
			return fileError("edit", in.Path, err)
		}
		out = FileEditOutput{Path: r.Path, Replacements: n, Created: create, SizeBytes: r.SizeBytes, SHA256: digest(data)}
		diff := text.EncodeHiddenDiff(patch.Diff(old.bytes, data))
		out.Diff = cutLines(diff, min(maxDiff, env.Room(maxDiff)/2))
		return nil
	})
	return out, err
}

func (out FileEditOutput) Render(w io.Writer) error {
	verb, times := "edited", "1 replacement"
	if out.Created {
		verb = "created"
	}
	if out.Replacements != 1 {
		times = fmt.Sprintf("%d replacements", out.Replacements)
	}
	_, err := fmt.Fprintf(w, "%s %s: %s\n%s", verb, text.QuoteName(string(out.Path)), times, out.Diff)
	return err
}

// apply returns data with the edits made, or an error if one does not fit. If shown, the
// edits are a model's, which has seen the file as text.EncodeHidden writes it.
func (in FileEditInput) apply(data []byte, shown bool) (_ []byte, replaced int, _ error) {
	for i, e := range in.Edits {
		refuse := func(cause, hint string) error {
			return &paddock.Error{Code: wire.CodeConflict, Message: fmt.Sprintf("cannot edit %s: edits[%d].old %s; nothing was changed", in.Path, i, cause), Hint: hint}
		}
		if e.Old == "" {
			if len(data) > 0 {
				return nil, 0, refuse("is empty, and the file is not", "give the text to be replaced; to replace all of it use file_write")
			}
			if shown {
				e.New = text.DecodeHidden(e.New)
			}
			data, replaced = []byte(e.New), replaced+1
			continue
		}
		if shown {
			literal, meant := e.Old, text.DecodeHidden(e.Old)
			is, means := contains(data, literal), contains(data, meant)
			if literal != meant && is && means {
				return nil, 0, refuse(`is there with the characters that "⟦U+…⟧" stands for, and with that text itself`, "give more of what is around it, so that one of the two is there, or write ⟦U+27E6⟧U+ for a ⟦U+ that is text")
			}
			if e.New = text.DecodeHidden(e.New); literal != meant && is {
				e.New = in.Edits[i].New // old is meant literally, so new is too
			} else {
				e.Old = meant
			}
		}
		old, by := []byte(e.Old), []byte(e.New)
		if crlf := bytes.Count(data, []byte("\r\n")); crlf > 0 && crlf == bytes.Count(data, []byte("\n")) { // on every line
			old, by = toCRLF(old), toCRLF(by)
		}
		n := bytes.Count(data, old)
		if n == 0 && bytes.Contains(old, []byte("\r\n")) && !bytes.Contains(data, []byte("\r\n")) {
			old, by = fromCRLF(old), fromCRLF(by)
			n = bytes.Count(data, old)
		}
		switch {
		case n == 0:
			cause, hint := notThere(data, e.Old)
			return nil, 0, refuse(cause, hint)
		case n > 1 && !e.All:
			return nil, 0, refuse(fmt.Sprintf("is there %d times, at lines %s", n, linesOf(data, old)), "give more of what is around it, so that it is there once, or set all")
		case len(data)+n*(len(by)-len(old)) > maxContent:
			return nil, 0, &paddock.Error{Code: wire.CodeTooLarge, Message: fmt.Sprintf("cannot edit %s: it would have more than %d bytes", in.Path, maxContent)}
		}
		data, replaced = bytes.ReplaceAll(data, old, by), replaced+n
	}
	return data, replaced, nil
}

// contains reports whether text has part, ignoring the kind of line endings.
func contains(text []byte, part string) bool {
	return bytes.Contains(text, []byte(part)) || bytes.Contains(text, toCRLF([]byte(part))) || bytes.Contains(text, fromCRLF([]byte(part)))
}

func fromCRLF(text []byte) []byte {
	return bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
}

func toCRLF(text []byte) []byte {
	return bytes.ReplaceAll(fromCRLF(text), []byte("\n"), []byte("\r\n"))
}

// linesOf returns the numbers of the first ten lines at which old occurs.
func linesOf(text, old []byte) string {
	var at []string
	line := 1
	for {
		i := bytes.Index(text, old)
		switch {
		case i < 0:
			return strings.Join(at, ", ")
		case len(at) == 10:
			return strings.Join(at, ", ") + " and more"
		}
		line += bytes.Count(text[:i], []byte("\n"))
		at = append(at, fmt.Sprint(line))
		line += bytes.Count(text[i:i+len(old)], []byte("\n"))
		text = text[i+len(old):]
	}
}

// maxSearched bounds the search for the text that was probably meant, in lines.
const maxSearched = 200_000

// notThere describes why old is not in text: it looks for the most similar text.
func notThere(text []byte, old string) (cause, hint string) {
	all := strings.Split(string(text), "\n")
	all = all[:min(len(all), maxSearched)]
	want := strings.Split(strings.TrimSuffix(old, "\n"), "\n")
	at := func(by func(string) string) int {
		have := "\n" + strings.Join(mapped(all, by), "\n") + "\n"
		i := strings.Index(have, "\n"+strings.Join(mapped(want, by), "\n")+"\n")
		if i < 0 {
			return -1
		}
		return strings.Count(have[:i], "\n")
	}
	asIs := func(s string) string { return s }
	noCR := func(s string) string { return strings.TrimSuffix(s, "\r") }
	noEnd := func(s string) string { return strings.TrimRight(s, " \t\r") }
	loose := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	unnumbered := func(s string) string {
		_, rest, ok := strings.Cut(s, "\t")
		return map[bool]string{true: rest, false: s}[ok]
	}
	if i := at(asIs); i >= 0 {
		return fmt.Sprintf("is not there: the text at line %d has no line feed at its end", i+1), "leave out the last line feed of old"
	}
	if i := at(noCR); i >= 0 {
		return fmt.Sprintf("is not there: line endings differ at line %d, where some lines end in CRLF and others in LF", i+1), `write \r\n where the file has it, or edit single lines`
	}
	if i := at(noEnd); i >= 0 {
		return fmt.Sprintf("is not there: white space at the ends of lines differs at line %d", i+1), "the file has: " + shownLines(all[i:i+len(want)])
	}
	if i := at(loose); i >= 0 && strings.TrimSpace(old) != "" {
		return fmt.Sprintf("is not there: white space differs at line %d", i+1), "the file has: " + shownLines(all[i:i+len(want)])
	}
	numbered := mapped(want, unnumbered)
	if strings.TrimSpace(numbered[0]) != "" && !slices.Equal(numbered, want) && bytes.Contains(text, []byte(strings.Join(numbered, "\n"))) {
		return "is not there: it begins with line numbers", "leave out the line numbers and the tab behind them"
	}
	return "is not there", nearest(all, want)
}

// mapped returns lines with by applied to each.
func mapped(some []string, by func(string) string) []string {
	out := make([]string, len(some))
	for i, line := range some {
		out[i] = by(line)
	}
	return out
}

// shownLines returns the first of some lines, quoted for a hint.
func shownLines(some []string) string {
	text := strings.Join(some[:min(len(some), 6)], "\n")
	if len(text) > 600 {
		text = text[:600]
	}
	return fmt.Sprintf("%q", text)
}

// nearest returns a hint with the line that is most similar to the first line of want, or to
// the longest if the first is very short.
func nearest(all, want []string) string {
	const none = "read the file again: it may have changed"
	line := strings.TrimSpace(want[0])
	for _, w := range want {
		if w = strings.TrimSpace(w); len(line) < 4 && len(w) > len(line) {
			line = w
		}
	}
	best, score := -1, 0
	for i, have := range all {
		if s := likeness(strings.TrimSpace(have), line); s > score {
			best, score = i, s
		}
	}
	if line == "" || score < 50 {
		return none
	}
	end := min(best+len(want), best+4, len(all))
	return fmt.Sprintf("the nearest is at line %d: %s; read the file again", best+1, shownLines(all[best:end]))
}

// likeness returns the length of the common prefix and suffix of two lines, as a percentage
// of the longer one.
func likeness(a, b string) int {
	n, m := len(a), len(b)
	if n == 0 || m == 0 {
		return 0
	}
	head, tail := 0, 0
	for head < n && head < m && a[head] == b[head] {
		head++
	}
	for tail < n-head && tail < m-head && a[n-1-tail] == b[m-1-tail] {
		tail++
	}
	return (head + tail) * 100 / max(n, m)
}
