import { defineErrors, errorClass, fault, isAbort, retryable } from '../../internal/errors/index.ts';

/** The errors of this directory, for `cluster help errors CODE`. */
export const operatorApiErrors = defineErrors({
  'operatorapi-join-unknown': fault.operator.precondition(
    'No machine that requested to join has this ID, fingerprint, identity or address, and the newest refusals in the audit log are not about it.',
    'List the requests with `cluster node ls --joins`, and all refusals with `cluster audit ls`.',
  ),
  'operatorapi-join-removed': fault.operator.precondition(
    'The machine was removed from the cluster and has not asked to join since.',
    'To use the machine again, reset it as root (`cluster node reset --help` shows how), and have an owner run `cluster node readmit NODE`, unless `cluster node ls --removed` says that it is readmitted. It then asks to join as a new machine, with a new fingerprint.',
  ),
  'operatorapi-join-claimed': fault.operator.usage(
    'A machine that asks to join claims this host name or node name. Any machine can claim any name, so machines are admitted and refused by what is proved: the ID, the fingerprint or the identity.',
    'Compare the fingerprint that `cluster node ls --joins` shows with the fingerprint on the console of the machine. Then use the fingerprint or the ID.',
  ),
  'operatorapi-join-readmitted': fault.operator.precondition(
    'The machine was removed from the cluster, an owner has readmitted it, and it has not asked to join since.',
    'Wait if the machine was reset: it starts again and asks to join as a new machine, with a new fingerprint, which `cluster node ls --joins` shows. If it does not within minutes, look at `systemctl status bootstrapper` on the machine. If it was not reset, reset it there as root (see `cluster node reset --help`).',
  ),
  'operatorapi-join-ambiguous': fault.operator.usage(
    'The prefix matches the ID, fingerprint or identity of more than one machine.',
    'Use a longer prefix. The error lists the matches.',
  ),
  'operatorapi-already-joined': fault.operator.precondition(
    'The machine is already a member, so its request cannot be approved or refused.',
    'Do nothing if the node is as you want it. Otherwise change its roles with `cluster node set-role NODE` and its labels with `cluster node label NODE`. To name it otherwise, remove the node and let its machine join again.',
  ),
  'operatorapi-operator-unknown': fault.operator.precondition(
    'No operator has this name.',
    'List all operators with `cluster operator ls`.',
  ),
  'operatorapi-ownership-signer': fault.operator.precondition(
    'The key of this owner signed the ownership of the cluster, and joining machines verify that signature. Another owner has to sign first. Nothing was changed.',
    'Have another owner run `cluster operator remove NAME`, which signs before it removes. To replace the key of the only owner, add the new key as an owner with another name and run the command with that key.',
  ),
  'operatorapi-document-kind': fault.operator.refused(
    'An operator who is not an owner can store grants and readmissions that an owner has signed. Any other document is stored only with the change that it is about. Nothing was changed.',
    'Run the command that makes the change, with `--signed FILE`.',
  ),
  'operatorapi-last-owner': fault.operator.precondition(
    'This is the last owner. Without an owner nobody could administer the cluster.',
    'Make another operator an owner first.',
  ),
  'operatorapi-audit-truncated': retryable.system.unreachable(
    'The oldest entries of the audit log were dropped to make room while they were being read. The chain is intact.',
    'Run the same command again. The command begins with the oldest remaining entry.',
  ),
  'operatorapi-collateral-refused': fault.operator.refused(
    'The uploaded collateral is malformed, not signed by its manufacturer, expired, or older than the collateral used before. The previous collateral stays in use.',
    'Fetch new collateral with `cluster attest collateral refresh` and upload it with `cluster attest collateral upload`. The cause names the document.',
  ),
  'operatorapi-keys-already-rotated': fault.operator.precondition(
    'The shared keys of the control planes were already rotated, and this call did not name the current generation. The call may be a repetition. Nothing was changed.',
    'Do nothing if you wanted that rotation. Otherwise name the current generation, which the error shows: `cluster keys rotate --replace GENERATION`.',
  ),
  'operatorapi-signing-failed': retryable.system.unreachable(
    'The operator is recorded, but this control plane could not issue the certificate.',
    'Repeat the call. If this persists, use another curator and check the log of cluster-signer.service on this one.',
  ),
});

/** An error of this directory, with one of its codes. */
export class OperatorApiError extends errorClass(operatorApiErrors) {}

/**
 * Waits for a certificate from the signer.
 * @param what the certificate, such as "the certificate of an operator"
 * @throws OperatorApiError `operatorapi-signing-failed`
 */
export function signed<T>(what: string, answer: Promise<T>, signal: AbortSignal): Promise<T> {
  return answer.catch((cause: unknown) => {
    if (isAbort(cause, signal)) throw cause;
    throw new OperatorApiError('operatorapi-signing-failed', `issuing ${what}`, { cause });
  });
}
