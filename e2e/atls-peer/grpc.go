package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
)

// As much of gRPC as one unary call needs, over net/http: what matters is that real HTTP/2 follows READY.

const echoPath = "/test.Echo/Echo"

type identityKey struct{}

// attested hides that a connection is TLS: net/http would want to do TLS's part itself.
type attested struct {
	net.Conn
	identity string
}

// callEcho calls test.Echo over an attested connection and answers the bytes that came back.
func callEcho(conn net.Conn, value []byte) ([]byte, error) {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	client := http.Client{Transport: &http.Transport{
		Protocols:   protocols,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return attested{Conn: conn}, nil },
	}}
	request, err := http.NewRequest("POST", "http://peer"+echoPath, bytes.NewReader(message(bytesValue(value))))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/grpc")
	request.Header.Set("TE", "trailers")
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if status := response.Trailer.Get("Grpc-Status"); status != "0" {
		return nil, fmt.Errorf("grpc status %q %q", status, response.Trailer.Get("Grpc-Message"))
	}
	return parseBytesValue(body)
}

// serveEcho answers each call on one attested connection with who the caller is.
func serveEcho(conn net.Conn, identity string) {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	server := http.Server{
		Protocols: protocols,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, identityKey{}, c.(attested).identity)
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "application/grpc")
			w.Header().Set("Trailer", "Grpc-Status")
			w.Write(message(bytesValue([]byte(r.Context().Value(identityKey{}).(string)))))
			w.Header().Set("Grpc-Status", "0")
		}),
	}
	server.Serve(&oneConn{conn: attested{conn, identity}, done: make(chan struct{})})
}

// oneConn is a listener that has one connection.
type oneConn struct {
	conn net.Conn
	done chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	if conn := l.conn; conn != nil {
		l.conn = nil
		return conn, nil
	}
	<-l.done
	return nil, net.ErrClosed
}
func (l *oneConn) Close() error   { return nil }
func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// message is gRPC's length-prefixed message, uncompressed.
func message(body []byte) []byte {
	out := make([]byte, 5, 5+len(body))
	binary.BigEndian.PutUint32(out[1:], uint32(len(body)))
	return append(out, body...)
}

// bytesValue is google.protobuf.BytesValue: field 1, length-delimited.
func bytesValue(value []byte) []byte {
	return append(binary.AppendUvarint([]byte{0x0a}, uint64(len(value))), value...)
}

func parseBytesValue(body []byte) ([]byte, error) {
	if len(body) < 7 || body[0] != 0 || body[5] != 0x0a {
		return nil, fmt.Errorf("not one BytesValue: %x", body)
	}
	length, n := binary.Uvarint(body[6:])
	if n <= 0 || uint64(len(body)) != uint64(6+n)+length {
		return nil, fmt.Errorf("not one BytesValue: %x", body)
	}
	return body[6+n:], nil
}
