package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

type issuer interface {
	format() uint16
	issue(userData []byte) []byte
}

type validator interface {
	format() uint16
	// validate answers who the peer is. The document is the peer's.
	validate(document, userData []byte) (identity string, ok bool)
}

// none is the evidence of an end whose mode shows or asks for nothing (docs/atls.md §6).
type none struct{}

func (none) format() uint16      { return formatNone }
func (none) issue([]byte) []byte { return nil }
func (none) validate(document, _ []byte) (string, bool) {
	return "unproven", len(document) == 0
}

// ownerKey is format 1.
type ownerKey struct{ key ed25519.PrivateKey }

const ownerPrefix = "cluster owner-key evidence v1\x00"

func (ownerKey) format() uint16 { return formatOwnerKey }
func (o ownerKey) issue(userData []byte) []byte {
	public := o.key.Public().(ed25519.PublicKey)
	return slices.Concat([]byte{1}, public, ed25519.Sign(o.key, append([]byte(ownerPrefix), userData...)))
}

type ownerKeys struct{ keys []ed25519.PublicKey }

func (ownerKeys) format() uint16 { return formatOwnerKey }
func (o ownerKeys) validate(document, userData []byte) (string, bool) {
	if len(document) != 97 || document[0] != 1 {
		return "", false
	}
	public, signature := ed25519.PublicKey(document[1:33]), document[33:]
	known := slices.ContainsFunc(o.keys, func(key ed25519.PublicKey) bool { return bytes.Equal(key, public) })
	id := sha256.Sum256(public)
	return "owner-key:" + hex.EncodeToString(id[:]), known && ed25519.Verify(public, append([]byte(ownerPrefix), userData...), signature)
}

// fake is the evidence of tests: an HMAC in the place of format 2, as internal/testing/atls has it.
type fake struct {
	key  []byte
	said string // "measurement@name"
}

func (fake) format() uint16 { return formatTPM }
func (f fake) mac(userData []byte, said []byte) []byte {
	mac := hmac.New(sha512.New, f.key)
	mac.Write(userData)
	mac.Write(said)
	return mac.Sum(nil)
}
func (f fake) issue(userData []byte) []byte {
	return append(f.mac(userData, []byte(f.said)), f.said...)
}
func (f fake) validate(document, userData []byte) (string, bool) {
	if len(document) < 64 {
		return "", false
	}
	mac, said := document[:64], document[64:]
	measurement, name, _ := strings.Cut(string(said), "@")
	return "fake:" + name, measurement == "good" && hmac.Equal(mac, f.mac(userData, said))
}

// parseIssuer reads "none", "owner-key:SEED", "fake:KEY:measurement@name" (hex).
func parseIssuer(text string) (issuer, error) {
	kind, rest, _ := strings.Cut(text, ":")
	keyHex, said, _ := strings.Cut(rest, ":")
	key, err := hex.DecodeString(keyHex)
	switch {
	case err != nil:
		return nil, err
	case kind == "none":
		return none{}, nil
	case kind == "owner-key" && len(key) == ed25519.SeedSize:
		return ownerKey{ed25519.NewKeyFromSeed(key)}, nil
	case kind == "fake" && len(key) > 0:
		return fake{key, said}, nil
	}
	return nil, fmt.Errorf("unknown evidence %q", text)
}

// parseValidator reads "none", "owner-key:PUBLICKEY", "fake:KEY" (hex).
func parseValidator(text string) (validator, error) {
	kind, keyHex, _ := strings.Cut(text, ":")
	key, err := hex.DecodeString(keyHex)
	switch {
	case err != nil:
		return nil, err
	case kind == "none":
		return none{}, nil
	case kind == "owner-key" && len(key) == ed25519.PublicKeySize:
		return ownerKeys{[]ed25519.PublicKey{key}}, nil
	case kind == "fake" && len(key) > 0:
		return fake{key: key}, nil
	}
	return nil, fmt.Errorf("unknown evidence %q", text)
}
