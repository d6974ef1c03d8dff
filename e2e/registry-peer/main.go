// A real OCI registry for stories: the one that go-containerregistry tests itself with. Listens on a free port of the address
// that is its argument. Says its address on the first line, then one line a request: METHOD PATH STATUS.
// By default without TLS and for everybody; flags add a certificate, a user and images.
package main

import (
	"crypto/rand"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

var (
	cert  = flag.String("cert", "", "certificate, PEM; with it the registry uses TLS")
	key   = flag.String("key", "", "its key, PEM")
	login = flag.String("login-file", "", "file with USER:PASSWORD, read at each request")
	token = flag.Bool("token", false, "ask for a token that the login gives, as most registries do")
	image = flag.String("image", "", "REPOSITORY:TAG=DIRECTORY of an OCI image layout")
)

func main() {
	flag.Parse()
	listener, err := net.Listen("tcp", net.JoinHostPort(flag.Arg(0), "0"))
	if err != nil {
		log.Fatal(err)
	}
	serve := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	if *image != "" {
		push(serve, *image)
	}
	fmt.Println(listener.Addr())
	go func() {
		// Whoever started this is gone when its end of the pipe is.
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	server := &http.Server{Handler: logged(guarded(serve, listener.Addr().String())), ErrorLog: log.New(io.Discard, "", 0)}
	if *cert != "" {
		log.Fatal(server.ServeTLS(listener, *cert, *key))
	}
	log.Fatal(server.Serve(listener))
}

// inProcess sends requests to a handler without a connection.
type inProcess struct{ handler http.Handler }

func (p inProcess) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Body == nil {
		request.Body = http.NoBody
	}
	recorder := httptest.NewRecorder()
	p.handler.ServeHTTP(recorder, request)
	response := recorder.Result()
	response.Request = request
	return response, nil
}

func push(serve http.Handler, argument string) {
	reference, directory, _ := strings.Cut(argument, "=")
	index, err := layout.ImageIndexFromPath(directory)
	if err != nil {
		log.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		log.Fatal(err)
	}
	img, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		log.Fatal(err)
	}
	target, err := name.ParseReference("localhost:1/"+reference, name.Insecure)
	if err != nil {
		log.Fatal(err)
	}
	if err := remote.Write(target, img, remote.WithTransport(inProcess{serve})); err != nil {
		log.Fatal(err)
	}
}

type status struct {
	http.ResponseWriter
	code int
}

func (s *status) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}

func logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen := &status{w, http.StatusOK}
		next.ServeHTTP(seen, r)
		fmt.Println(r.Method, r.URL.Path, seen.code)
	})
}

// guarded lets in who knows the login, with basic authentication or with a token that costs it.
func guarded(next http.Handler, address string) http.Handler {
	if *login == "" {
		return next
	}
	random := make([]byte, 16)
	rand.Read(random)
	bearer := hex.EncodeToString(random)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		wanted, err := os.ReadFile(*login)
		knows := err == nil && user+":"+password == strings.TrimSpace(string(wanted))
		switch {
		case *token && r.URL.Path == "/token" && knows:
			fmt.Fprintf(w, `{"token":%q}`, bearer)
		case *token && r.URL.Path != "/token" && r.Header.Get("Authorization") == "Bearer "+bearer, !*token && knows:
			next.ServeHTTP(w, r)
		case *token && r.URL.Path != "/token":
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="https://%s/token",service="peer"`, address))
			w.WriteHeader(http.StatusUnauthorized)
		default:
			w.Header().Set("WWW-Authenticate", `Basic realm="peer"`)
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
}
