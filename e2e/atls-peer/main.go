// atls-peer is a second implementation of aTLS/1, written from docs/atls.md with Go's standard library only.
// It exists so that the specification, and not our own code, decides what is right.
//
//	atls-peer vector
//	atls-peer client --address HOST:PORT --context TEXT --show EVIDENCE --accept EVIDENCE [--fault NAME] [--calls N]
//	atls-peer server --context TEXT --show EVIDENCE --accept EVIDENCE [--fault NAME]
//
// It says what happened as JSON lines on standard output.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"
)

func main() {
	if len(os.Args) < 2 {
		fail(errors.New("usage: atls-peer vector|client|server"))
	}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	address := flags.String("address", "", "where the server is")
	context := flags.String("context", "", "cluster id and service")
	show := flags.String("show", "", "evidence to show")
	accept := flags.String("accept", "", "evidence to accept")
	fault := flags.String("fault", "", "what to do wrong")
	calls := flags.Int("calls", 1, "how many connections to make")
	flags.Parse(os.Args[2:])
	if os.Args[1] == "vector" {
		say(vector())
		return
	}
	shows, err := parseIssuer(*show)
	if err != nil {
		fail(err)
	}
	accepts, err := parseValidator(*accept)
	if err != nil {
		fail(err)
	}
	e := &end{
		server:   os.Args[1] == "server",
		context:  *context,
		identity: selfSigned(),
		shows:    []issuer{shows},
		accepts:  []validator{accepts},
		fault:    *fault,
	}
	if e.server {
		runServer(e)
		return
	}
	for range *calls {
		runClient(e, *address)
	}
}

func runClient(e *end, address string) {
	tcp, err := net.Dial("tcp", address)
	if err != nil {
		fail(err)
	}
	conn, identity, err := e.attest(tcp)
	if err != nil {
		say(map[string]string{"event": "refused", "reason": reasonOf(err)})
		return
	}
	defer conn.Close()
	answer, err := callEcho(conn, []byte("who am I?"))
	if err != nil {
		say(map[string]string{"event": "failed", "reason": err.Error()})
		return
	}
	say(map[string]string{"event": "attested", "peer": identity, "answer": string(answer)})
}

func runServer(e *end) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fail(err)
	}
	say(map[string]string{"event": "listening", "address": listener.Addr().String()})
	for {
		tcp, err := listener.Accept()
		if err != nil {
			fail(err)
		}
		go func() {
			conn, identity, err := e.attest(tcp)
			if err != nil {
				say(map[string]string{"event": "refused", "reason": reasonOf(err)})
				return
			}
			say(map[string]string{"event": "attested", "peer": identity})
			serveEcho(conn, identity)
		}()
	}
}

// reasonOf: "alert-N" when the peer refused us, our own reason when we refused it.
func reasonOf(err error) string {
	var own *refusal
	var alert peerAlert
	if errors.As(err, &own) || errors.As(err, &alert) {
		return err.Error()
	}
	return "broken: " + err.Error()
}

// vector computes docs/atls.md §7.
func vector() map[string]string {
	fill := func(b byte) []byte {
		out := make([]byte, 32)
		for i := range out {
			out[i] = b
		}
		return out
	}
	s := session{
		context:    "00112233445566778899aabbccddeeff/joinservice",
		serverSPKI: spkiOfScalar(1),
		clientSPKI: spkiOfScalar(2),
		exportKey:  func([]byte) ([]byte, error) { return fill(0x33), nil },
	}
	clientHello, serverHello := encodeHello([]uint16{2, 1}, fill(0x11)), encodeHello([]uint16{2}, fill(0x22))
	client, server, th, err := bindings(s, clientHello, serverHello)
	if err != nil {
		fail(err)
	}
	return map[string]string{
		"clientHello": hex.EncodeToString(clientHello),
		"serverHello": hex.EncodeToString(serverHello),
		"transcript":  hex.EncodeToString(th),
		"client":      hex.EncodeToString(client),
		"server":      hex.EncodeToString(server),
	}
}

func spkiOfScalar(scalar byte) []byte {
	raw := make([]byte, 32)
	raw[31] = scalar
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), raw)
	if err != nil {
		fail(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		fail(err)
	}
	return der
}

func selfSigned() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		fail(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		fail(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		fail(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func say(what map[string]string) {
	line, _ := json.Marshal(what)
	fmt.Println(string(line))
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "atls-peer:", err)
	os.Exit(1)
}
