import { defineErrors, errorClass } from '../../internal/errors/index.ts';

export const curatorClientErrors = defineErrors({
  'curatorclient-no-curator': {
    fault: 'system',
    exit: 'unreachable',
    retryable: true,
    meaning: 'This node knows of no curator that it could ask.',
    fix: 'Nothing while the node is becoming a member; later, write the address of a control-plane node into its provisioning.',
  },
  'curatorclient-left-directory': {
    fault: 'peer',
    exit: 'unreachable',
    retryable: true,
    meaning: 'A curator left the directory while it was being asked.',
    fix: 'Nothing: the node goes on at another one.',
  },
  'curatorclient-not-member': {
    fault: 'operator',
    exit: 'refused',
    retryable: false,
    meaning:
      'A curator of this cluster says that this node is disowned: its key is on no record of a member any more. It was removed.',
    fix: 'If it is to be a member again, make the machine fresh as root on it (`cluster node reset --help` shows how); it then asks to join with a new key. Otherwise switch it off.',
  },
  'curatorclient-other-node': {
    fault: 'peer',
    exit: 'refused',
    retryable: true,
    meaning: 'Where a control-plane node was, another node of the cluster answers.',
    fix: 'See whether two machines use the same address; otherwise nothing: the directory will say where each is.',
  },
});

export type CuratorClientErrorCode = keyof typeof curatorClientErrors;

export class CuratorClientError extends errorClass(curatorClientErrors) {}
