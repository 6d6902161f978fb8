package command

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// top judges the statements of a whole text. Functions can be defined here only: a
// definition elsewhere might not be executed, and a call would then start a program of
// that name.
func (c *checker) top(stmts []*syntax.Stmt) {
	for _, s := range stmts {
		if f, ok := s.Cmd.(*syntax.FuncDecl); ok && !s.Background && !s.Coprocess && !s.Disown {
			c.function(f)
			c.redirects(s.Redirs)
			continue
		}
		c.stmt(s)
	}
}

// stmts judges statements that stand in another one.
func (c *checker) stmts(stmts []*syntax.Stmt) {
	for _, s := range stmts {
		if c.denial != nil {
			return
		}
		c.stmt(s)
	}
}

// stmt judges a statement: a command with its redirections.
func (c *checker) stmt(s *syntax.Stmt) {
	if s == nil || c.denial != nil {
		return
	}
	c.depth++
	defer func() { c.depth-- }()
	if c.tooDeep(offset(s)) {
		return
	}
	if s.Coprocess || s.Disown {
		c.refuse(offset(s), RuleParse, "", "Failed to parse command: this is another shell's way to run in the background", "use &")
		return
	}
	c.redirects(s.Redirs)
	stdinText := c.stdinText
	c.stdinText = stdinIsText(s.Redirs, stdinText)
	c.command(s.Cmd)
	c.stdinText = stdinText
}

// stdinIsText reports whether redirections make standard input a here-document, the
// output of a process, or another descriptor; before says whether it was one without
// them. A file is not text: it is a program, or data, like any other.
func stdinIsText(redirs []*syntax.Redirect, before bool) bool {
	stdinText := before
	for _, r := range redirs {
		switch r.Op {
		case syntax.RdrIn, syntax.RdrInOut:
			if r.N == nil || r.N.Value == "0" {
				v := newValuer()
				v.read(r.Word)
				stdinText = namesDescriptor(v.text.String())
			}
		case syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc, syntax.DplIn, syntax.DplOut:
			stdinText = true // even on another descriptor, which may become standard input
		}
	}
	return stdinText
}

// namesDescriptor reports whether a path, or its constant head, may name an open file,
// whose content is unknown.
func namesDescriptor(text string) bool {
	return strings.HasPrefix(text, "/dev/") && text != "/dev/null" || strings.HasPrefix(text, "/proc/")
}

// command judges a command of any kind.
func (c *checker) command(cmd syntax.Command) {
	switch cmd := cmd.(type) {
	case nil: // redirections alone
	case *syntax.CallExpr:
		c.call(cmd)
	case *syntax.BinaryCmd:
		c.binary(cmd)
	case *syntax.Block:
		c.stmts(cmd.Stmts)
	case *syntax.Subshell:
		c.scope(cmd.Stmts)
	case *syntax.IfClause:
		for ; cmd != nil; cmd = cmd.Else {
			c.stmts(cmd.Cond)
			c.stmts(cmd.Then)
		}
	case *syntax.WhileClause:
		c.stmts(cmd.Cond)
		c.stmts(cmd.Do)
	case *syntax.ForClause:
		c.loop(cmd)
	case *syntax.CaseClause:
		c.word(cmd.Word)
		for _, item := range cmd.Items {
			for _, p := range item.Patterns {
				c.word(p)
			}
			c.stmts(item.Stmts)
		}
	case *syntax.ArithmCmd:
		c.arithmetic(cmd.X)
	case *syntax.TestClause:
		c.test(cmd.X)
	case *syntax.DeclClause:
		c.declare(cmd)
	case *syntax.TimeClause:
		c.stmt(cmd.Stmt)
	case *syntax.CoprocClause:
		c.coprocess(cmd)
	case *syntax.FuncDecl:
		c.refuse(offset(cmd), RuleFunction, "", "a function is defined where that may not happen, or only for a while",
			"define functions at the outermost level, before they are called")
	case *syntax.LetClause:
		c.refuse(offset(cmd), RuleBuiltin, "let", builtins["let"].never, "use $(( ))")
	default:
		c.refuse(offset(cmd), RuleParse, "", "Failed to parse command: unknown construct", "")
	}
}

// binary judges a chain of commands in a loop, since the tree of a long chain is deep
// on its left side.
func (c *checker) binary(b *syntax.BinaryCmd) {
	var rest []*syntax.BinaryCmd
	for {
		rest = append(rest, b)
		x, ok := b.X.Cmd.(*syntax.BinaryCmd)
		if !ok || b.X.Negated || b.X.Background || len(b.X.Redirs) > 0 {
			break
		}
		b = x
	}
	c.stmt(b.X)
	stdinText := c.stdinText
	for i := len(rest) - 1; i >= 0; i-- {
		c.stdinText = stdinText || rest[i].Op == syntax.Pipe || rest[i].Op == syntax.PipeAll
		c.stmt(rest[i].Y)
	}
	c.stdinText = stdinText
}

// scope judges statements that run in a separate process: their changes of directory end with
// it.
func (c *checker) scope(stmts []*syntax.Stmt) {
	c.words = append(c.words, pathWord{kind: scopeBegins})
	c.stmts(stmts)
	c.words = append(c.words, pathWord{kind: scopeEnds})
}

// loop judges for and select.
func (c *checker) loop(f *syntax.ForClause) {
	switch loop := f.Loop.(type) {
	case *syntax.WordIter:
		c.assignTo(loop.Name.Value, offset(loop.Name), RuleAssignment)
		if !loop.InPos.IsValid() || f.Select {
			c.variable(loop.Name.Value).unknown = true
		}
		for _, w := range loop.Items {
			c.word(w)
			c.store(loop.Name.Value, c.value(w))
		}
	case *syntax.CStyleLoop:
		c.arithmetic(loop.Init)
		c.arithmetic(loop.Cond)
		c.arithmetic(loop.Post)
	}
	c.stmts(f.Do)
}

// coprocess judges coproc. Its variable holds descriptors.
func (c *checker) coprocess(p *syntax.CoprocClause) {
	name := "COPROC"
	if p.Name != nil {
		a := c.value(p.Name)
		if !a.constant {
			c.refuse(a.at, RuleName, "coproc", "the name of a coprocess is not constant", "")
			return
		}
		name = a.text
	}
	c.assignTo(name, offset(p), RuleAssignment)
	c.variable(name).unknown = true
	c.withStdinText(func() { c.stmt(p.Stmt) })
}

// withStdinText calls judge for commands that get text as their standard input.
func (c *checker) withStdinText(judge func()) {
	stdinText := c.stdinText
	c.stdinText = true
	judge()
	c.stdinText = stdinText
}

// function judges the definition of a function, and remembers its name.
func (c *checker) function(f *syntax.FuncDecl) {
	if f.Name == nil || !isName(f.Name.Value) {
		c.refuse(offset(f), RuleFunction, "", "the name of a function must be letters, digits and underscores", "")
		return
	}
	name := f.Name.Value
	_, builtin := builtins[name]
	if builtin || c.rules.allow[name] || harmless[name] || syntax.IsKeyword(name) {
		c.refuse(offset(f), RuleFunction, name, "the function "+name+" would hide the command of that name", "give it another name")
		return
	}
	switch f.Body.Cmd.(type) {
	case *syntax.Block, *syntax.Subshell:
	default: // for shells, a definition before a pipe is part of the pipeline, in a process of its own
		c.refuse(offset(f), RuleFunction, name, "the body of a function must be { commands; } or ( commands ), and nothing may follow it", "end it with a new line")
		return
	}
	c.functions[name] = true
	c.withStdinText(func() { c.stmt(f.Body) }) // which it may get where it is called
}

// redirects judges where input and output go.
func (c *checker) redirects(redirs []*syntax.Redirect) {
	for _, r := range redirs {
		if r.N != nil && len(r.N.Value) > 0 && r.N.Value[0] == '{' {
			name := r.N.Value[1 : len(r.N.Value)-1]
			c.assignTo(name, offset(r), RuleAssignment)
			c.variable(name) // it becomes a number
		}
		if r.Hdoc != nil {
			c.heredoc(r)
			continue
		}
		c.word(r.Word)
		if r.Op == syntax.Hdoc || r.Op == syntax.DashHdoc || r.Op == syntax.WordHdoc {
			continue
		}
		target := c.value(r.Word)
		if strings.HasPrefix(target.text, "/dev/tcp/") || strings.HasPrefix(target.text, "/dev/udp/") { // for bash
			c.refuse(target.at, RuleRedirection, "", "this opens a connection, not a file", "")
		}
		c.words = append(c.words, pathWord{kind: pathRedirect, text: target.text, constant: target.constant, home: c.homeOf(target), in: c, at: target.at})
	}
}

// heredoc judges a here-document. Shells and the parser disagree about its end in two
// cases: a backslash joins a line with the next one, also with the last, and in a
// substitution the closing bracket may follow the end.
func (c *checker) heredoc(r *syntax.Redirect) {
	from, to := offset(r.Hdoc), int(r.Hdoc.End().Offset())
	end := c.value(r.Word)
	quoted := false
	for _, part := range r.Word.Parts {
		lit, ok := part.(*syntax.Lit)
		quoted = quoted || !ok || strings.Contains(lit.Value, `\`)
	}
	lines := strings.Split(strings.TrimSuffix(c.text[min(from, to):min(to, len(c.text))], "\n"), "\n")
	for i, line := range lines {
		line = strings.TrimLeft(line, "\t")
		head := strings.TrimRight(line, `\`)
		joins := !quoted && head != line && (i == len(lines)-1 || strings.HasPrefix(end.text, head))
		if joins || strings.HasPrefix(line, end.text) && strings.Contains(line, ")") {
			c.refuse(from, RuleParse, "", "Failed to parse command: where this here-document ends is not sure", "end it with another word: <<'END_OF_TEXT'")
			return
		}
	}
	if quoted {
		c.word(r.Hdoc)
		return
	}
	c.quoted(r.Hdoc.Parts)
}

// call judges a simple command of the shell.
func (c *checker) call(x *syntax.CallExpr) {
	args := make([]arg, len(x.Args))
	for i, w := range x.Args {
		c.word(w)
		args[i] = c.value(w)
	}
	reads := len(args) > 0 && args[0].constant && args[0].text == "read"
	for _, a := range x.Assigns {
		if reads && a.Name.Value == "IFS" { // for this command alone, and it starts none
			c.word(a.Value)
			continue
		}
		if a.Name == nil {
			c.word(a.Value)
			continue
		}
		c.assignTo(a.Name.Value, offset(a), RuleAssignment)
		c.assignValue(a.Name.Value, a)
	}
	if len(args) > 0 && c.denial == nil {
		c.simple(args, true)
	}
}

// simple judges a command by its words; functions says that its name may be that of a
// function.
func (c *checker) simple(args []arg, functions bool) {
	name := args[0]
	if !c.requireConstantName(name) || !c.countCommand(name.at) {
		return
	}
	if functions && c.functions[name.text] {
		return
	}
	if len(c.rules.allow) == 0 { // not even a command that need not be on the list is allowed
		c.allowed(name.text, name)
		return
	}
	b, ok := builtins[name.text]
	if !ok || c.lang == syntax.LangPOSIX && b.bash {
		c.program(args)
		return
	}
	switch {
	case b.never != "":
		c.refuse(name.at, RuleBuiltin, name.text, b.never, b.hint)
	case b.check != nil:
		b.check(c, args)
	}
}

// requireConstantName refuses a command whose name is not written out.
func (c *checker) requireConstantName(name arg) bool {
	if name.constant {
		return true
	}
	c.refuse(name.at, RuleName, name.text, "the name of a command must be written out: this one is known only at run time",
		"write the name of the program itself")
	return false
}

// countCommand bounds the commands of one text.
func (c *checker) countCommand(at int) bool {
	if c.commands++; c.commands <= maxCommands {
		return true
	}
	c.refuse(at, RuleSize, "", "it has more than 4096 commands", "put it into a file of the workspace")
	return false
}
