import { defineErrors, errorClass } from '../../internal/errors/index.ts';

export const signerErrors = defineErrors({
  'signer-config-invalid': {
    fault: 'system',
    exit: 'usage',
    retryable: false,
    meaning: 'The configuration of the signer cannot be used.',
    fix: 'The agent writes this file; restart bootstrapper.service so that it does so again, and report it if it is wrong still.',
  },
  'signer-key-missing': {
    fault: 'system',
    exit: 'precondition',
    retryable: true,
    meaning: 'A key of the cluster is not on this control-plane node yet.',
    fix: 'Nothing while the node is being set up; if it stays so, see which file is named in the log of cluster-signer.service.',
  },
  'signer-not-on-record': {
    fault: 'peer',
    exit: 'refused',
    retryable: false,
    meaning: 'A certificate was asked for that no record of the cluster allows.',
    fix: 'If nobody removed the node or operator at that moment, look at who can reach the join service.',
  },
  'signer-request-invalid': {
    fault: 'peer',
    exit: 'refused',
    retryable: false,
    meaning: 'What is to be signed is malformed, or the machine itself did not ask for it.',
    fix: 'Compare the versions of agent and join service; they may differ by one minor.',
  },
  'signer-statement-outdated': {
    fault: 'peer',
    exit: 'refused',
    retryable: true,
    meaning:
      'The statement of a machine is too old, or from the future: the signer takes it for ten minutes.',
    fix: 'Compare the clocks of the machine and of the control plane. If they agree, somebody has kept a statement back.',
  },
  'signer-statement-replayed': {
    fault: 'peer',
    exit: 'refused',
    retryable: true,
    meaning: 'The machine has made a newer statement since: somebody shows an old one again.',
    fix: 'The machine asks again by itself. If it happens again, look at who can reach the signer’s socket.',
  },
  'signer-evidence-missing': {
    fault: 'peer',
    exit: 'refused',
    retryable: false,
    meaning: 'A statement came without evidence of the kind that the machine was admitted with.',
    fix: 'Compare the versions of agent and join service; see whether the machine’s TPM answers.',
  },
  'signer-evidence-refused': {
    fault: 'peer',
    exit: 'refused',
    retryable: false,
    meaning: 'The evidence is not for this statement, or the attestation policy refuses it.',
    fix: 'See the cause in the log of cluster-signer.service: it names the check that failed.',
  },
  'signer-machine-other': {
    fault: 'peer',
    exit: 'refused',
    retryable: false,
    meaning: 'Another machine than the one on record has made the evidence.',
    fix: 'If the machine was replaced, remove its node and let it join again; otherwise somebody uses a copied node key.',
  },
  'signer-machine-changed': {
    fault: 'peer',
    exit: 'refused',
    retryable: false,
    meaning: 'The record of a control plane names another machine than the one that the signer knows.',
    fix: 'If the change is meant, have an owner sign a new grant for the node; otherwise look at who writes records.',
  },
  'signer-address-other': {
    fault: 'peer',
    exit: 'refused',
    retryable: false,
    meaning: 'A machine asked for a certificate of an address or a name that is not its own.',
    fix: 'See in the message whose it is. Give the machine an address and a name of its own.',
  },
  'signer-grant-missing': {
    fault: 'operator',
    exit: 'refused',
    retryable: true,
    meaning: 'A place in the control plane needs an owner’s signature, and there is none for this node.',
    fix: 'Have an owner approve the node, or set its roles, with the owner key.',
  },
  'signer-grant-other': {
    fault: 'peer',
    exit: 'refused',
    retryable: false,
    meaning: 'The owner’s grant is for another key, machine or role than those on record.',
    fix: 'Have an owner sign for the node as it is on record; if nobody changed it, look at who writes records.',
  },
  'signer-policy-unsigned': {
    fault: 'operator',
    exit: 'refused',
    retryable: true,
    meaning: 'No owner has signed for the configuration on record, which says what evidence is good.',
    fix: 'Have an owner apply the configuration again.',
  },
  'signer-memory-damaged': {
    fault: 'system',
    exit: 'internal',
    retryable: true,
    meaning: 'What the signer has seen of owners’ documents and statements cannot be read from its disk.',
    fix: 'Demote the node, promote it again: the signer then begins with the floors in the owner’s grant.',
  },
});

export type SignerErrorCode = keyof typeof signerErrors;

export class SignerError extends errorClass(signerErrors) {}
