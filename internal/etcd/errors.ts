import { defineErrors, errorClass, fault, findCoded, retryable } from '../errors/index.ts';
import { RpcError } from '../rpc/index.ts';

export const etcdErrors = defineErrors({
  'etcd-unavailable': retryable.system.unreachable(
    'No etcd member responded, or etcd has no quorum. A write may or may not have happened.',
    'Make sure that cluster-etcd-state.service and cluster-etcd-kubernetes.service run on more than half of the control-plane nodes, and that these nodes reach each other on ports 2380 and 2383.',
  ),
  'etcd-denied': fault.system.refused(
    "etcd's access control refused the call for the user that the client certificate names.",
    'Use the certificate that is made for this purpose; do not grant its user more permissions.',
  ),
  'etcd-compacted': retryable.system.precondition(
    'The requested revision has been compacted.',
    'Read all keys again; watches do so by themselves.',
  ),
  'etcd-lease-gone': retryable.system.precondition(
    'The lease has expired or was revoked.',
    'Run the same command again: the program takes a new lease. A lease expires when its program does not run for a while, so look for a machine that is overloaded or was suspended.',
  ),
  'etcd-no-space': fault.system.unhealthy(
    'The etcd database has reached its quota; etcd rejects writes.',
    'Run `cluster recover space` as root on a control plane, then find out which data filled the database.',
  ),
  'etcd-corrupt': fault.system.unhealthy(
    'The alarm CORRUPT of etcd is active: a member was found to have other content than the others. etcd refuses every read and write of keys.',
    'Run `cluster doctor`, and follow "A member of etcd has other content" in docs/recovery.md.',
  ),
  'etcd-member-limit': retryable.system.precondition(
    'etcd adds only one member at a time, and it is adding another node now.',
    'Wait until the other node is a voting member, or remove it if it has failed.',
  ),
  'etcd-member-not-ready': retryable.system.precondition(
    'etcd refuses to change its members, because a member is not started, not in sync or not healthy.',
    'Wait: right after a member change this resolves by itself. Otherwise find the lagging member with `cluster status` and repair it.',
  ),
  'etcd-member-unknown': fault.system.precondition(
    'No etcd member has this id.',
    'Run the same command again: the member was removed meanwhile. `cluster doctor` compares the members with the control planes.',
  ),
  'etcd-exists': fault.system.precondition(
    'The etcd member, user or role already exists.',
    'Run the same command again: an interrupted run has created it. If that fails too, `cluster doctor` compares the members of etcd with the control planes.',
  ),
  'etcd-absent': fault.system.precondition(
    'The etcd user or role does not exist.',
    'Restart bootstrapper.service on each control plane: the agent creates the users and roles that are missing.',
  ),
  'etcd-failed': fault.system.internal(
    'etcd refused the call for an unexpected reason.',
    'Run `cluster doctor`, which checks both etcd clusters, and fix what it reports. On the control plane, `journalctl -u cluster-etcd-state -u cluster-etcd-kubernetes` has the log of etcd at the time of the call. If nothing is wrong there, report this error with its message.',
  ),
});

/** Codes of `EtcdError`. */
type EtcdErrorCode = keyof typeof etcdErrors;

/** A call that etcd refused, or to which no member responded. */
export class EtcdError extends errorClass(etcdErrors) {}

/** The error messages of etcd (api/v3rpc/rpctypes), without the prefix "etcdserver: ", and their codes. */
const MESSAGES: readonly (readonly [string, EtcdErrorCode])[] = [
  ['permission denied', 'etcd-denied'],
  ['user name is empty', 'etcd-denied'],
  ['invalid auth token', 'etcd-denied'],
  ['mvcc: required revision has been compacted', 'etcd-compacted'],
  ['requested lease not found', 'etcd-lease-gone'],
  ['mvcc: database space exceeded', 'etcd-no-space'],
  ['corrupt cluster', 'etcd-corrupt'],
  ['too many learner members in cluster', 'etcd-member-limit'],
  ['can only promote a learner member which is in sync with leader', 'etcd-member-not-ready'],
  ['unhealthy cluster', 'etcd-member-not-ready'],
  ['re-configuration failed due to not enough started members', 'etcd-member-not-ready'],
  ['member not found', 'etcd-member-unknown'],
  ['Peer URLs already exists', 'etcd-exists'],
  ['member ID already exist', 'etcd-exists'],
  ['membership: ID exists', 'etcd-exists'],
  ['can only promote a learner member', 'etcd-exists'],
  ['user name already exists', 'etcd-exists'],
  ['role name already exists', 'etcd-exists'],
  ['user name not found', 'etcd-absent'],
  ['role name not found', 'etcd-absent'],
  ['no leader', 'etcd-unavailable'],
  ['leader changed', 'etcd-unavailable'],
  ['not leader', 'etcd-unavailable'],
  ['server stopped', 'etcd-unavailable'],
  ['too many requests', 'etcd-unavailable'],
  ['request timed out', 'etcd-unavailable'],
  // etcd also returns this message for a moment after the promotion, until the member has applied it.
  ['rpc not supported for learner', 'etcd-unavailable'],
  ['request canceled', 'etcd-unavailable'],
  ['context deadline exceeded', 'etcd-unavailable'],
  ['revision of auth store is old', 'etcd-unavailable'],
];

/** The code for an error message of etcd; undefined for an unknown one. */
export function codeFromMessage(text: string): EtcdErrorCode | undefined {
  // The error of a refused watch contains the same message inside Go's text of a gRPC status.
  const message = text.replace(/^rpc error: code = \w+ desc = /, '').replace(/^etcdserver: /, '');
  // The longest match first: "can only promote a learner member" is also the beginning of another sentence.
  return MESSAGES.filter(([known]) => message.startsWith(known)).sort(
    (a, b) => b[0].length - a[0].length,
  )[0]?.[1];
}

/** Whether etcd gave a read up because its members elected another leader meanwhile. */
export function isLeaderChange({ cause }: EtcdError): boolean {
  return cause instanceof Error && /^etcdserver: leader changed/.test(cause.message);
}

/** Translates an error of a gRPC call into an `EtcdError`; other errors are returned as they are. */
export function etcdError(doing: string, error: unknown): unknown {
  if (error instanceof EtcdError) return error;
  const coded = findCoded(error);
  if (!(coded instanceof RpcError)) return error;
  const message = coded.cause instanceof Error ? coded.cause.message : '';
  const code = codeFromMessage(message);
  if (code !== undefined) return new EtcdError(code, doing, { cause: coded.cause });
  // A member that shuts down ends its streams without a status.
  const isCutOff = /RST_STREAM|without gRPC status|HTTP status code 200/.test(message);
  switch (isCutOff ? 'rpc-unreachable' : coded.code) {
    case 'rpc-unreachable':
    case 'rpc-timeout':
      return new EtcdError('etcd-unavailable', doing, { cause: coded });
    case 'rpc-handshake':
      return coded;
    default:
      return new EtcdError('etcd-failed', doing, { cause: coded.cause });
  }
}
