import { defineErrors, errorClass } from '../../internal/errors/index.ts';

export const operatorApiErrors = defineErrors({
  'operatorapi-join-unknown': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning:
      'No machine that asked to join has this id, fingerprint, identity or address, and the newest refusals in the audit are about none that has.',
    fix: 'See `cluster node ls --joins` for those that asked, and `cluster audit ls` for all refusals.',
  },
  'operatorapi-join-ambiguous': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning: 'More than one machine has an id, fingerprint or identity that begins so.',
    fix: 'Write more of it; the message names those that are meant.',
  },
  'operatorapi-already-joined': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'The machine is a member already; there is nothing to decide about it.',
    fix: 'Change its roles or labels, or decommission it, as any other node’s.',
  },
  'operatorapi-operator-unknown': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'There is no operator of this name.',
    fix: 'See `cluster operator ls` for all of them.',
  },
  'operatorapi-ownership-signer': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning:
      'This owner’s key signed whose cluster this is, and machines that join are shown that signature: another owner has to sign first. Nothing was changed.',
    fix: 'Have another owner run `cluster operator remove NAME`: it signs before it removes. For a new key of the only owner, add that key as an owner of another name and run it with that one.',
  },
  'operatorapi-last-owner': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'This is the last owner; without one nobody could administer the cluster.',
    fix: 'Make somebody else an owner first.',
  },
  'operatorapi-audit-truncated': {
    fault: 'system',
    exit: 'unreachable',
    retryable: true,
    meaning:
      'The oldest entries of the audit were dropped to make room for new ones while they were being read. Nothing is wrong with the chain.',
    fix: 'Run the same command again; it begins with the oldest entry that there is.',
  },
  'operatorapi-collateral-refused': {
    fault: 'operator',
    exit: 'refused',
    retryable: false,
    meaning:
      'The uploaded collateral is malformed, not signed by its manufacturer, expired, or older than the collateral in use. The cluster keeps the collateral in use.',
    fix: 'Run `cluster attest collateral refresh`, then `cluster attest collateral hand-on`.',
  },
  'operatorapi-keys-already-rotated': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning:
      'The keys that control planes share have been replaced before, and this call did not say that those of now are to be replaced too: it may be one that was repeated. Nothing was begun.',
    fix: 'If it is the replacement that was wanted, nothing is left to do. Otherwise name the generation of now, which the message has: `cluster keys rotate --replace GENERATION`.',
  },
  'operatorapi-signing-failed': {
    fault: 'system',
    exit: 'unreachable',
    retryable: true,
    meaning: 'The operator is on record, but no certificate could be made here.',
    fix: 'Repeat the call; at another curator if it stays so. See the log of cluster-signer.service there.',
  },
});

export type OperatorApiErrorCode = keyof typeof operatorApiErrors;

export class OperatorApiError extends errorClass(operatorApiErrors) {}
