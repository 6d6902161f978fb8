package main

import (
	"fmt"
	"io"
	"net"
)

// echo listens on a port of 127.0.0.1, prints it, and sends back what each connection brings.
func echo() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr().(*net.TCPAddr).Port)
	for {
		conn, err := l.Accept()
		if err != nil {
			panic(err)
		}
		go func() {
			defer conn.Close()
			_, _ = io.Copy(struct{ io.Writer }{conn}, struct{ io.Reader }{conn})
		}()
	}
}
