import { defineErrors, errorClass } from '../../internal/errors/index.ts';

/** Error codes of the curator client, with meaning and fix. */
export const curatorClientErrors = defineErrors({
  'curatorclient-no-curator': {
    fault: 'system',
    exit: 'unreachable',
    retryable: true,
    meaning: 'This node knows no curator.',
    fix: 'Nothing to do while the node joins. Later, add the address of a control-plane node to `joinEndpoints` of its provisioning.',
  },
  'curatorclient-left-directory': {
    fault: 'peer',
    exit: 'unreachable',
    retryable: true,
    meaning: 'A curator left the directory during a request.',
    fix: 'Nothing to do: the node continues with another curator.',
  },
  'curatorclient-not-member': {
    fault: 'operator',
    exit: 'refused',
    meaning: 'This node was removed from the cluster: no record of a member has its key.',
    fix: 'To let it join again, reset the machine as root (see `cluster node reset --help`); it then joins with a new key. Otherwise shut it down.',
  },
  'curatorclient-other-node': {
    fault: 'peer',
    exit: 'refused',
    retryable: true,
    meaning: 'Another node of the cluster responds at the address of a control-plane node.',
    fix: 'Check that no two machines use the same address. Otherwise nothing to do: the directory will have the new addresses.',
  },
});

/** Error code of a `CuratorClientError`. */
export type CuratorClientErrorCode = keyof typeof curatorClientErrors;

/** An error of the curator client. */
export class CuratorClientError extends errorClass(curatorClientErrors) {}
