// Package mcp is the door for models: a server of the Model Context Protocol,
// rendered from the table of operations. Every operation that its principal may
// use, and that its profile has, is a tool of the same name:
//
//	server, err := mcp.New(mcp.Options{
//		Env:     func(principal string) (*op.Env, error) { … },
//		Profile: op.ProfileWorkspace,
//	})
//	…
//	err = server.ServeStdio(ctx, os.Stdin, os.Stdout) // one client, until its end
//
// or, for many clients, [Server.Handler], behind something that says who asks
// ([WithPrincipal]). Each principal has an environment, sandboxes and sessions of
// its own, which live as long as the server and which nobody else sees.
//
// What a tool takes is checked by op.Op.Call, as behind every door. An answer
// is a text for models, without control sequences that a terminal would obey, and
// at most [Options].Budget characters long. [Options].Structured adds the operation's
// output as structured content, with names and contents of files as they are, and
// halves the budget between the two. Tools whose form a contract fixes answer with
// its JSON, whole, within its own bounds. An operation that failed is an answer with
// isError and the text "cannot …: …"; an unknown tool is an error of the protocol.
// A panic in an operation is an answer, too.
//
// Standard input and output belong to the protocol: no command gets them, and
// what the server has to say goes to its logger.
package mcp
