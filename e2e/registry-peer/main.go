// A real OCI registry without TLS for the stories of charts: the one that go-containerregistry tests itself with.
// Listens on a free port of the address that is its argument. Says its address on the first line, then one line a request: METHOD PATH.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"

	"github.com/google/go-containerregistry/pkg/registry"
)

func main() {
	listener, err := net.Listen("tcp", net.JoinHostPort(os.Args[1], "0"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	serve := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	go func() {
		// Whoever started this is gone when its end of the pipe is.
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	log.Fatal(http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Method, r.URL.Path)
		serve.ServeHTTP(w, r)
	})))
}
