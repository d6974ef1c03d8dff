package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"time"
)

const (
	alpnID        = "atls-h2/1"
	exporterLabel = "EXPERIMENTAL-aTLS/1 attestation binder"

	tlsTimeout   = 3 * time.Second
	helloTimeout = 3 * time.Second
	wholeTimeout = 20 * time.Second
	alertLinger  = 500 * time.Millisecond
)

// end is one side's configuration: what it shows and accepts, by format, best first.
type end struct {
	server   bool
	context  string
	identity tls.Certificate
	shows    []issuer
	accepts  []validator
	fault    string // what this end does wrong on purpose; "" for nothing
}

// session is what both ends know of one TLS connection.
type session struct {
	context                string
	serverSPKI, clientSPKI []byte
	exportKey              func(context []byte) ([]byte, error)
}

// bindings computes userData of both roles (docs/atls.md §4).
func bindings(s session, clientHello, serverHello []byte) (client, server []byte, th []byte, err error) {
	sum := sha256.Sum256(slices.Concat(clientHello, serverHello))
	ekm, err := s.exportKey(sum[:])
	if err != nil {
		return nil, nil, nil, err
	}
	context, serverKey, clientKey := sha256.Sum256([]byte(s.context)), sha256.Sum256(s.serverSPKI), sha256.Sum256(s.clientSPKI)
	of := func(role string) []byte {
		label := append([]byte("aTLS/1 "+role+" evidence"), 0)
		data := sha512.Sum512(slices.Concat(label, context[:], ekm, sum[:], serverKey[:], clientKey[:]))
		return data[:]
	}
	return of("client"), of("server"), sum[:], nil
}

// attest secures a TCP connection and proves both ends. It owns the connection: on error it is closed.
func (e *end) attest(tcp net.Conn) (net.Conn, string, error) {
	deadline := time.Now().Add(wholeTimeout)
	conn, s, err := e.secure(tcp)
	if err != nil {
		tcp.Close()
		return nil, "", err
	}
	identity, err := e.handshake(conn, s, deadline)
	if err != nil {
		hangUp(conn, err)
		return nil, "", err
	}
	return conn, identity, conn.SetDeadline(time.Time{})
}

// secure is docs/atls.md §2.
func (e *end) secure(tcp net.Conn) (*tls.Conn, session, error) {
	config := &tls.Config{
		MinVersion:             tls.VersionTLS13,
		NextProtos:             []string{alpnID},
		Certificates:           []tls.Certificate{e.identity},
		ClientAuth:             tls.RequireAnyClientCert,
		InsecureSkipVerify:     true, // the evidence decides, not a certificate authority
		SessionTicketsDisabled: true,
	}
	switch e.fault {
	case "tls12":
		config.MinVersion, config.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	case "alpn":
		config.NextProtos = []string{"h2"}
	case "no-certificate":
		config.Certificates = nil
	}
	conn := tls.Client(tcp, config)
	if e.server {
		conn = tls.Server(tcp, config)
	}
	tcp.SetDeadline(time.Now().Add(tlsTimeout))
	if err := conn.Handshake(); err != nil {
		return nil, session{}, &refusal{reason: "tls-failed"}
	}
	state := conn.ConnectionState()
	switch {
	case state.Version != tls.VersionTLS13 && e.fault == "":
		return nil, session{}, &refusal{reason: "tls-version"}
	case state.NegotiatedProtocol != alpnID && e.fault == "":
		return nil, session{}, &refusal{reason: "tls-alpn"}
	case state.DidResume:
		return nil, session{}, &refusal{reason: "tls-resumed"}
	case len(state.PeerCertificates) == 0:
		return nil, session{}, &refusal{reason: "tls-certificate"}
	}
	peer := state.PeerCertificates[0]
	if key, ok := peer.PublicKey.(*ecdsa.PublicKey); !ok || key.Curve != elliptic.P256() || len(peer.RawSubjectPublicKeyInfo) != 91 {
		return nil, session{}, &refusal{reason: "tls-certificate"}
	}
	own := e.identity.Leaf.RawSubjectPublicKeyInfo
	if bytes.Equal(own, peer.RawSubjectPublicKeyInfo) {
		return nil, session{}, &refusal{reason: "reflection"}
	}
	s := session{context: e.context, serverSPKI: peer.RawSubjectPublicKeyInfo, clientSPKI: own}
	if e.server {
		s.serverSPKI, s.clientSPKI = s.clientSPKI, s.serverSPKI
	}
	s.exportKey = func(context []byte) ([]byte, error) {
		return state.ExportKeyingMaterial(exporterLabel, context, 32)
	}
	return conn, s, nil
}

// handshake is docs/atls.md §5. It answers who the peer is.
func (e *end) handshake(conn *tls.Conn, s session, deadline time.Time) (string, error) {
	conn.SetDeadline(time.Now().Add(helloTimeout))
	nonce := make([]byte, nonceBytes)
	rand.Read(nonce)
	own := encodeHello(formatsOf(e.accepts), nonce)
	if _, err := conn.Write(e.spoil("hello", own)); err != nil {
		return "", err
	}
	peer, body, err := readFrame(conn, frameHello)
	if err != nil {
		return "", err
	}
	accepts, peerNonce, err := parseHello(body)
	if err != nil {
		return "", err
	}
	if bytes.Equal(nonce, peerNonce) {
		return "", &refusal{"reflection", alertProtocol}
	}
	show := e.chooseIssuer(accepts)
	if show == nil {
		return "", &refusal{"no-common-format", alertNoCommonFormat}
	}
	conn.SetDeadline(deadline)
	if e.server {
		clientData, serverData, _, err := bindings(s, peer, own)
		if err != nil {
			return "", err
		}
		identity, err := e.receiveEvidence(conn, clientData)
		if err != nil {
			return "", err
		}
		if err := expectSilence(conn, deadline); err != nil {
			return "", err
		}
		if err := e.sendEvidence(conn, show, serverData, frame(frameReady, nil)); err != nil {
			return "", err
		}
		_, _, err = readFrame(conn, frameReady)
		return identity, err
	}
	clientData, serverData, _, err := bindings(s, own, peer)
	if err != nil {
		return "", err
	}
	if err := e.sendEvidence(conn, show, clientData, nil); err != nil {
		return "", err
	}
	identity, err := e.receiveEvidence(conn, serverData)
	if err != nil {
		return "", err
	}
	if _, _, err := readFrame(conn, frameReady); err != nil {
		return "", err
	}
	_, err = conn.Write(frame(frameReady, nil))
	return identity, err
}

func (e *end) chooseIssuer(accepts []uint16) issuer {
	for _, format := range accepts {
		for _, each := range e.shows {
			if each.format() == format {
				return each
			}
		}
	}
	return nil
}

func (e *end) sendEvidence(conn *tls.Conn, show issuer, userData, more []byte) error {
	document := show.issue(e.spoil("binding", userData))
	_, err := conn.Write(append(e.spoil("evidence", encodeEvidence(show.format(), document)), more...))
	return err
}

func (e *end) receiveEvidence(conn *tls.Conn, userData []byte) (string, error) {
	_, body, err := readFrame(conn, frameEvidence)
	if err != nil {
		return "", err
	}
	if len(body) < 2 {
		return "", &refusal{"frame-malformed", alertProtocol}
	}
	format := binary.BigEndian.Uint16(body)
	for _, each := range e.accepts {
		if each.format() == format {
			identity, ok := each.validate(body[2:], userData)
			if !ok {
				return "", &refusal{"evidence-rejected", alertEvidenceRejected}
			}
			return identity, nil
		}
	}
	return "", &refusal{"evidence-format", alertProtocol}
}

// expectSilence refuses what came while it was not the peer's turn.
func expectSilence(conn *tls.Conn, deadline time.Time) error {
	conn.SetReadDeadline(time.Now().Add(time.Millisecond))
	defer conn.SetReadDeadline(deadline)
	first := make([]byte, 1)
	if n, err := conn.Read(first); n == 0 {
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			return nil
		}
		return &refusal{reason: "truncated"}
	}
	if first[0] != frameAlert {
		return &refusal{"early-data", alertProtocol}
	}
	conn.SetReadDeadline(deadline)
	_, _, err := readFrame(io.MultiReader(bytes.NewReader(first), conn), frameAlert)
	return err
}

// spoil does what the fault says to what is about to be sent or signed.
func (e *end) spoil(what string, data []byte) []byte {
	data = slices.Clone(data)
	switch what + ":" + e.fault {
	case "hello:hello-twice":
		return append(data, data...)
	case "hello:flag":
		data[headerBytes] = 1
	case "hello:version":
		data[1] = 2
	case "hello:preface":
		return []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	case "binding:stale":
		data[0] ^= 1 // as evidence made for any other session
	case "evidence:oversized":
		binary.BigEndian.PutUint32(data[2:], 64*1024+1)
	case "evidence:early":
		return append(data, frame(frameReady, nil)...)
	}
	return data
}

// hangUp tells the peer one code and gives it a moment to read it.
func hangUp(conn *tls.Conn, err error) {
	var why *refusal
	if errors.As(err, &why) && why.alert != 0 {
		conn.SetDeadline(time.Now().Add(alertLinger))
		conn.Write(frame(frameAlert, []byte{why.alert}))
		conn.CloseWrite()
		for rest := make([]byte, 4096); ; {
			if _, err := conn.Read(rest); err != nil {
				break
			}
		}
	}
	conn.Close()
}

func formatsOf(accepts []validator) []uint16 {
	formats := []uint16{}
	for _, each := range accepts {
		formats = append(formats, each.format())
	}
	return formats
}
