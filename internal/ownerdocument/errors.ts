import { defineErrors, errorClass, fault } from '../errors/index.ts';

const SIGN_AGAIN = 'Ask an owner to run the command that creates this document again.';
const DO_NOT_USE = 'Do not use the document. Ask an owner to sign a new one.';

/** Refusals of owner-signed documents. */
export const ownerDocumentErrors = defineErrors({
  'owner-document-malformed': fault.peer.refused(
    'An owner-signed document does not have the form that this version writes.',
    'Compare the versions of the CLI and of the agents. If they match, ask an owner to sign the document again.',
  ),
  'owner-document-trailing-bytes': fault.peer.refused(
    'An owner-signed document has bytes after its signature.',
    DO_NOT_USE,
  ),
  'owner-document-kind-unknown': fault.peer.refused(
    'This version does not know the kind of an owner-signed document.',
    'Upgrade the program that refused the document.',
  ),
  'owner-document-kind-mismatch': fault.peer.refused(
    'A valid owner-signed document was used as a document of another kind.',
    'Do not use the document: it was stored where it does not belong.',
  ),
  'owner-document-signer-unknown': fault.peer.refused(
    'The key that signed the document is not an owner key of this cluster.',
    'Ask an owner whose key is in the provisioning of the machines, or in the signed set of owners, to sign it.',
  ),
  'owner-document-signature-invalid': fault.peer.refused(
    'The signature of an owner-signed document is missing or does not match its content.',
    'Do not use the document: it was changed, or signed with another key.',
  ),
  'owner-document-cluster-mismatch': fault.peer.refused(
    'The document was signed for another cluster.',
    DO_NOT_USE,
  ),
  'owner-document-epoch-old': fault.peer.refused(
    'The document was signed before the cluster was recovered or restored.',
    SIGN_AGAIN,
  ),
  'owner-document-serial-old': fault.peer.refused(
    'A newer document of the same kind was accepted before, so this document is a replay of an old one.',
    'Use the newest document. If it is lost, ask an owner to sign again.',
  ),
  'owner-document-before-rollback': fault.peer.refused(
    'An owner signed the document before the machine found that its disk is an old copy. The machine may have forgotten a newer document. What runs on the machine goes on, and so do renewals.',
    'Ask an owner to run `cluster sign`, then repeat the step. Or reset the machine and let it join again. If nobody restored the disk, find out who had it. If the time in the message is in the far future, the TPM of the machine does not respond: repair it.',
  ),
  'owner-document-serial-conflict': fault.peer.refused(
    'Another document with the same serial number was accepted before; the document that was accepted first stays valid.',
    'Find out whether two owners signed at the same time. If they did not, an owner key was copied: remove that owner.',
  ),
  'owner-document-expired': fault.peer.refused(
    'The document has passed its end date and allows nothing new.',
    SIGN_AGAIN,
  ),
  'owner-document-required': fault.peer.refused(
    'Control-plane roles, trusted machines and measurements, operators and readmissions need an owner’s signature.',
    'Ask an owner to run the same command with the owner key. An owner who cannot reach the cluster signs a request: run the command with `--request-signature FILE`, if it has this flag.',
  ),
});

/** An owner-signed document was refused. Nothing of it may be used. */
export class OwnerDocumentError extends errorClass(ownerDocumentErrors) {}
