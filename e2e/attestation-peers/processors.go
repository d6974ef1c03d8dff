package main

import (
	"time"

	"github.com/google/go-sev-guest/abi"
	sevpb "github.com/google/go-sev-guest/proto/sevsnp"
	sevvalidate "github.com/google/go-sev-guest/validate"
	sevverify "github.com/google/go-sev-guest/verify"
	tdxverify "github.com/google/go-tdx-guest/verify"
)

// judgeSnp verifies signature, chain and what the certificate says of chip and TCB; every guest policy is allowed.
func judgeSnp(asked request) error {
	report, err := abi.ReportToProto(asked.Parts["report"])
	if err != nil {
		return err
	}
	attestation := &sevpb.Attestation{
		Report:           report,
		CertificateChain: &sevpb.CertificateChain{VcekCert: asked.Parts["vcek"]},
	}
	options := &sevverify.Options{DisableCertFetching: true, Now: time.Unix(asked.Now, 0)}
	if err := sevverify.SnpAttestation(attestation, options); err != nil {
		return err
	}
	return sevvalidate.SnpAttestation(attestation, &sevvalidate.Options{
		GuestPolicy:               abi.SnpPolicy{SMT: true, Debug: true, MigrateMA: true, CXLAllowed: true},
		PermitProvisionalFirmware: true,
	})
}

// judgeTdx verifies the quote and its own chain; the peer has no way to take collateral from memory alone.
func judgeTdx(asked request) error {
	return tdxverify.RawTdxQuote(asked.Parts["quote"], &tdxverify.Options{Now: time.Unix(asked.Now, 0)})
}
