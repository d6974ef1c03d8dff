import { defineErrors, errorClass } from '../errors/index.ts';

export const pkiErrors = defineErrors({
  'pki-request-invalid': {
    fault: 'peer',
    exit: 'refused',
    retryable: false,
    meaning: 'A certificate request is malformed, or its sender does not hold the key it names.',
    fix: 'Make the request anew with the private key at hand.',
  },
  'pki-untrusted': {
    fault: 'peer',
    exit: 'refused',
    retryable: false,
    meaning: "The certificate shown is not one that this cluster's CA signed for this purpose.",
    fix: 'Check that both sides belong to the same cluster; compare the fingerprint of the cluster CA.',
  },
  'pki-expired': {
    fault: 'peer',
    exit: 'refused',
    retryable: false,
    meaning: 'The certificate shown is outside its dates, beyond the tolerance of five minutes.',
    fix: 'Compare the clocks of both machines; if they agree, have the certificate renewed.',
  },
});

export type PkiErrorCode = keyof typeof pkiErrors;

export class PkiError extends errorClass(pkiErrors) {}
