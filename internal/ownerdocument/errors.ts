import { defineErrors, errorClass, type ErrorSpec } from '../errors/index.ts';

const SIGN_AGAIN = 'Have an owner run the command again that makes this document.';

export const ownerDocumentErrors = defineErrors({
  'owner-document-malformed': refusal(
    'An owner-signed document does not have the form that this version writes.',
    'Compare the versions of the CLI and of the agents; if they match, have an owner sign again.',
  ),
  'owner-document-trailing-bytes': refusal(
    'Bytes follow the signature of an owner-signed document.',
    'Do not use the document; have an owner sign again.',
  ),
  'owner-document-kind-unknown': refusal(
    'An owner-signed document is of a kind that this version does not know.',
    'Upgrade the program that refused it.',
  ),
  'owner-document-kind-mismatch': refusal(
    'A valid kind of owner-signed document was shown in the place of another kind.',
    'Do not use the document: somebody put it where it does not belong.',
  ),
  'owner-document-signer-unknown': refusal(
    'The key that signed the document is no owner key of this cluster.',
    'Have an owner sign it whose key is in the provisioning of the machines, or in the signed set of owners.',
  ),
  'owner-document-signature-invalid': refusal(
    'The signature of an owner-signed document is missing or does not match its content.',
    'Do not use the document: somebody changed it, or signed it with another key.',
  ),
  'owner-document-cluster-mismatch': refusal(
    'The document was signed for another cluster.',
    'Do not use the document; have an owner sign one for this cluster.',
  ),
  'owner-document-epoch-old': refusal(
    'The document was signed before the cluster was recovered or restored.',
    SIGN_AGAIN,
  ),
  'owner-document-serial-old': refusal(
    'A newer document of the same kind was accepted before: somebody shows an old one again.',
    'Show the newest document. If it is lost, have an owner sign again.',
  ),
  'owner-document-serial-conflict': refusal(
    'Another document with the same serial number was accepted before; the first one stays.',
    'Find out who signed twice: either two owners at the same time, or somebody copied an owner key.',
  ),
  'owner-document-expired': refusal(
    'The end date of the document has passed: it lets nothing new in.',
    SIGN_AGAIN,
  ),
  'owner-document-required': refusal(
    'Control-plane places, trusted machines and measurements, operators and readmissions need an owner’s signature.',
    'Have an owner run the same command with the owner key.',
  ),
});

export type OwnerDocumentErrorCode = keyof typeof ownerDocumentErrors;

/** An owner-signed document was refused. Nothing of it may be used. */
export class OwnerDocumentError extends errorClass(ownerDocumentErrors) {}

function refusal(meaning: string, fix: string): ErrorSpec {
  return { fault: 'peer', exit: 'refused', retryable: false, meaning, fix };
}
