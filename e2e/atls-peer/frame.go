package main

import (
	"encoding/binary"
	"fmt"
	"io"
)

// docs/atls.md §3.
const (
	frameHello    = 1
	frameEvidence = 2
	frameReady    = 3
	frameAlert    = 15

	headerBytes = 6
	nonceBytes  = 32
	maxFormats  = 16

	formatNone     = 0
	formatOwnerKey = 1
	formatTPM      = 2
)

var bodyLimit = map[byte]uint32{frameHello: 256, frameEvidence: 64 * 1024, frameReady: 0, frameAlert: 1}

// Alert codes.
const (
	alertProtocol         = 1
	alertTooLarge         = 2
	alertTimeout          = 3
	alertEvidenceRejected = 4
	alertInternal         = 5
	alertBusy             = 6
	alertNoCommonFormat   = 7
)

// refusal is why this end hangs up. The peer learns the alert, the log the rest.
type refusal struct {
	reason string
	alert  byte // 0: the peer is told nothing
}

func (r *refusal) Error() string { return r.reason }

// peerAlert is why the other end hung up.
type peerAlert byte

func (a peerAlert) Error() string { return fmt.Sprintf("alert-%d", byte(a)) }

func frame(kind byte, body []byte) []byte {
	out := make([]byte, headerBytes, headerBytes+len(body))
	out[0], out[1] = kind, 1
	binary.BigEndian.PutUint32(out[2:], uint32(len(body)))
	return append(out, body...)
}

// readFrame reads the one frame whose turn it is, or the alert in its place. It answers the whole frame and its body.
func readFrame(r io.Reader, due byte) (whole, body []byte, err error) {
	header := make([]byte, headerBytes)
	if _, err := io.ReadFull(r, header); err != nil {
		return nil, nil, &refusal{reason: "truncated"}
	}
	kind, version, length := header[0], header[1], binary.BigEndian.Uint32(header[2:])
	if version != 1 {
		return nil, nil, &refusal{"frame-version", alertProtocol}
	}
	limit, known := bodyLimit[kind]
	switch {
	case !known:
		return nil, nil, &refusal{"frame-type", alertProtocol}
	case length > limit:
		return nil, nil, &refusal{"frame-too-large", alertTooLarge}
	case kind != due && kind != frameAlert:
		return nil, nil, &refusal{"frame-order", alertProtocol}
	}
	body = make([]byte, length)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, nil, &refusal{reason: "truncated"}
	}
	if kind == frameAlert {
		if len(body) != 1 {
			return nil, nil, &refusal{"frame-malformed", alertProtocol}
		}
		return nil, nil, peerAlert(body[0])
	}
	return append(header, body...), body, nil
}

func encodeHello(accepts []uint16, nonce []byte) []byte {
	body := []byte{0, byte(len(accepts))}
	for _, format := range accepts {
		body = binary.BigEndian.AppendUint16(body, format)
	}
	return frame(frameHello, append(body, nonce...))
}

func parseHello(body []byte) (accepts []uint16, nonce []byte, err error) {
	malformed := &refusal{"frame-malformed", alertProtocol}
	if len(body) < 2 || body[0] != 0 || body[1] < 1 || body[1] > maxFormats {
		return nil, nil, malformed
	}
	count := int(body[1])
	if len(body) != 2+2*count+nonceBytes {
		return nil, nil, malformed
	}
	seen := map[uint16]bool{}
	for i := range count {
		format := binary.BigEndian.Uint16(body[2+2*i:])
		if seen[format] || (format == formatNone && count > 1) {
			return nil, nil, malformed
		}
		seen[format] = true
		accepts = append(accepts, format)
	}
	return accepts, body[2+2*count:], nil
}

func encodeEvidence(format uint16, document []byte) []byte {
	return frame(frameEvidence, append(binary.BigEndian.AppendUint16(nil, format), document...))
}
