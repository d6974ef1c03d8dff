import { defineErrors, errorClass, fault } from '../errors/index.ts';

/** Refusals of certificates and certificate requests. */
export const pkiErrors = defineErrors({
  'pki-request-invalid': fault.peer.refused(
    'A certificate request is malformed, or its sender does not hold the key it names.',
    'Create the request again, with the private key that belongs to the public key in it.',
  ),
  'pki-untrusted': fault.peer.refused(
    "The peer's certificate was not signed by the CA of this cluster, or not for this purpose.",
    'Compare the fingerprints of the cluster CA on both machines. If they differ, the machines belong to different clusters.',
  ),
  'pki-expired': fault.peer.refused(
    "The peer's certificate is expired or not valid yet, by more than the tolerance of 5m.",
    'Compare the clocks of both machines. If they agree, renew the certificate.',
  ),
});

/** A certificate or certificate request was refused. */
export class PkiError extends errorClass(pkiErrors) {}
