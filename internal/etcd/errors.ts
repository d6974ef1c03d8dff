import { defineErrors, errorClass, findCoded } from '../errors/index.ts';
import { RpcError } from '../rpc/index.ts';

export const etcdErrors = defineErrors({
  'etcd-unavailable': {
    fault: 'system',
    exit: 'unreachable',
    retryable: true,
    meaning: 'No etcd member answered, or the members have no quorum. A write may or may not have happened.',
    fix: 'See that cluster-etcd-state.service and cluster-etcd-kubernetes.service run on more than half of the control-plane nodes, and that these reach each other on ports 2380 and 2383.',
  },
  'etcd-denied': {
    fault: 'system',
    exit: 'refused',
    retryable: false,
    meaning: "etcd's access control refused the call for the user that the client certificate names.",
    fix: 'The certificate is for another purpose; do not widen its rights, use the right certificate.',
  },
  'etcd-compacted': {
    fault: 'system',
    exit: 'precondition',
    retryable: true,
    meaning: 'The revision asked for has been compacted away.',
    fix: 'Read everything anew; watches do so by themselves.',
  },
  'etcd-lease-gone': {
    fault: 'system',
    exit: 'precondition',
    retryable: true,
    meaning: 'The lease has expired or was revoked.',
    fix: 'Take a new lease.',
  },
  'etcd-no-space': {
    fault: 'system',
    exit: 'unhealthy',
    retryable: false,
    meaning: "etcd's database has reached its quota; it takes no more writes.",
    fix: 'Find what fills it, compact and defragment, then disarm the alarm; or raise the quota.',
  },
  'etcd-member-limit': {
    fault: 'system',
    exit: 'precondition',
    retryable: true,
    meaning: 'etcd takes one new member at a time, and one is on its way already.',
    fix: 'Wait until the other node is a voting member, or remove it if it is dead.',
  },
  'etcd-member-not-ready': {
    fault: 'system',
    exit: 'precondition',
    retryable: true,
    meaning: 'etcd refuses to change its members now: one is not started, not in sync or not healthy.',
    fix: 'Wait; right after a change this passes by itself. Otherwise look at the member that lags.',
  },
  'etcd-member-unknown': {
    fault: 'system',
    exit: 'precondition',
    retryable: false,
    meaning: 'There is no etcd member with this id.',
    fix: 'Read the list of members anew.',
  },
  'etcd-exists': {
    fault: 'system',
    exit: 'precondition',
    retryable: false,
    meaning: 'The member, user or role is there already.',
    fix: 'Use the one that is there.',
  },
  'etcd-absent': {
    fault: 'system',
    exit: 'precondition',
    retryable: false,
    meaning: 'The user or role is not there.',
    fix: 'Create it first.',
  },
  'etcd-failed': {
    fault: 'system',
    exit: 'internal',
    retryable: false,
    meaning: 'etcd refused the call for a reason that should not occur.',
    fix: 'The message holds what etcd said; please report it.',
  },
});

export type EtcdErrorCode = keyof typeof etcdErrors;

export class EtcdError extends errorClass(etcdErrors) {}

/** What etcd says (api/v3rpc/rpctypes), without the prefix "etcdserver: ", and what it means to a caller. */
const MESSAGES: readonly (readonly [string, EtcdErrorCode])[] = [
  ['permission denied', 'etcd-denied'],
  ['user name is empty', 'etcd-denied'],
  ['invalid auth token', 'etcd-denied'],
  ['mvcc: required revision has been compacted', 'etcd-compacted'],
  ['requested lease not found', 'etcd-lease-gone'],
  ['mvcc: database space exceeded', 'etcd-no-space'],
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
  // Also for a moment after its promotion, until it has heard of that itself.
  ['rpc not supported for learner', 'etcd-unavailable'],
  ['request canceled', 'etcd-unavailable'],
  ['context deadline exceeded', 'etcd-unavailable'],
  ['revision of auth store is old', 'etcd-unavailable'],
];

/** The code for one of etcd's own sentences; undefined for one we don't know. */
export function codeFromMessage(text: string): EtcdErrorCode | undefined {
  // A watch that is refused says the same sentence wrapped in Go's own rendering of a status.
  const said = text.replace(/^rpc error: code = \w+ desc = /, '').replace(/^etcdserver: /, '');
  // The longest match first: "can only promote a learner member" is also the beginning of another sentence.
  return MESSAGES.filter(([saying]) => said.startsWith(saying)).sort(
    (a, b) => b[0].length - a[0].length,
  )[0]?.[1];
}

/** Translates what a call threw, once, at this port. Everything that is no answer of etcd's stays as it is. */
export function etcdError(doing: string, error: unknown): unknown {
  if (error instanceof EtcdError) return error;
  const coded = findCoded(error);
  if (!(coded instanceof RpcError)) return error;
  const said = coded.cause instanceof Error ? coded.cause.message : '';
  const code = codeFromMessage(said);
  if (code !== undefined) return new EtcdError(code, doing, { cause: coded.cause });
  // A member that is told to stop ends its streams without a status.
  const isCutOff = /RST_STREAM|without gRPC status/.test(said);
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
