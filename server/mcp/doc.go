// Package mcp is the door for models: a server of the Model Context Protocol that renders the
// table of operations. Each operation of its profile that the principal may use is a tool of
// the same name:
//
//	server, err := mcp.New(mcp.Options{
//		Env:     func(principal string) (*op.Env, error) { … },
//		Profile: op.ProfileWorkspace,
//	})
//	…
//	err = server.ServeStdio(ctx, os.Stdin, os.Stdout) // one client, until its end
//
// or, for many clients, [Server.Handler], behind a handler that authenticates requests
// ([WithPrincipal]). Each principal has its own environment, sandboxes and sessions, which live
// as long as the server and which nobody else sees.
//
// op.Op.Call checks the input of a tool, as behind every door. An answer is a text for models,
// without control sequences that a terminal would obey, of at most [Options].Budget characters.
// [Options].Structured adds the operation's output as structured content, with names and
// contents of files as they are; each of the two then gets half of the budget. Tools whose form
// a contract fixes answer with its JSON, complete, within the contract's bounds. A failed
// operation, even one that panicked, is an answer with isError and the text "cannot …: …"; an
// unknown tool is an error of the protocol.
//
// Standard input and output belong to the protocol: no command gets them, and the server's own
// messages go to its logger.
package mcp
