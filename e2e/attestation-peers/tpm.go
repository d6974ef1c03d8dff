package main

import (
	"crypto"
	"errors"
	"slices"

	"github.com/google/go-attestation/attest"
)

func pcrsOf(asked request) []attest.PCR {
	var pcrs []attest.PCR
	for index, digest := range asked.PCRs {
		pcrs = append(pcrs, attest.PCR{Index: index, Digest: digest, DigestAlg: crypto.SHA256})
	}
	slices.SortFunc(pcrs, func(a, b attest.PCR) int { return a.Index - b.Index })
	return pcrs
}

// judgeQuote verifies signature, nonce and PCR values.
func judgeQuote(asked request) error {
	key, err := attest.ParseAKPublic(asked.Parts["attestationKey"])
	if err != nil {
		return err
	}
	quote := attest.Quote{Quote: asked.Parts["quote"], Signature: asked.Parts["signature"]}
	return key.VerifyAll([]attest.Quote{quote}, pcrsOf(asked), asked.Parts["nonce"])
}

// judgeLog replays an event log against PCR values.
func judgeLog(asked request) error {
	log, err := attest.ParseEventLog(asked.Parts["log"])
	if err != nil {
		return err
	}
	if !slices.Contains(log.Algs, attest.HashSHA256) {
		return errors.New("no SHA-256 bank")
	}
	_, err = log.Verify(pcrsOf(asked))
	return err
}
