// Command web answers HTTP requests with where they arrived, for the sample chart and for tests:
//
//	/         pod, node, address and client, one line
//	/healthz  200 as long as the server runs
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const (
	address = ":8080"
	grace   = 5 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	server := &http.Server{Addr: address, Handler: handler(), ReadHeaderTimeout: grace}
	go func() {
		<-ctx.Done()
		ending, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		_ = server.Shutdown(ending)
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatalf("serving on %s: %v", address, err)
	}
}

func handler() http.Handler {
	pod, _ := os.Hostname()
	node := os.Getenv("NODE_NAME")
	// Patterns without a method: those mean something only to modules of go 1.22 and later, and 404 to others.
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		fmt.Fprintf(w, "pod=%s node=%s address=%v client=%s\n", pod, node, local, r.RemoteAddr)
	})
	return mux
}
