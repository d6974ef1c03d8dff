import { CodedError, defineErrors, type CodedErrorOptions } from '../../internal/errors/index.ts';

export const consensusErrors = defineErrors({
  'consensus-pki-missing': {
    fault: 'system',
    exit: 'needsReset',
    retryable: false,
    meaning: "etcd's data is on this disk, but a file of etcd's own PKI is not. Nothing was touched.",
    fix: 'Restore the file named in the message from a backup of the disk, or put the node back with `cluster node reset`.',
  },
  'consensus-pki-damaged': {
    fault: 'system',
    exit: 'needsReset',
    retryable: false,
    meaning: "A file of etcd's own PKI is there but can not be what it should be. Nothing was touched.",
    fix: 'Restore the file named in the message from a backup of the disk, or put the node back with `cluster node reset`.',
  },
  'consensus-data-missing': {
    fault: 'system',
    exit: 'needsReset',
    retryable: false,
    meaning:
      'This node has been a member of etcd, but its data is gone. It does not start an empty etcd in its place.',
    fix: 'Restore the data folder, or put the node back with `cluster node reset` and join it anew.',
  },
  'consensus-not-ready': {
    fault: 'system',
    exit: 'unreachable',
    retryable: true,
    meaning: 'etcd runs on this node but does not serve.',
    fix: 'The message says what was waited for and the last error; with several control-plane nodes, see that most of them run.',
  },
  'consensus-other-cluster': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'The etcd on this node already holds another cluster.',
    fix: 'Use the init id and workspace of that cluster, or put the node back with `cluster node reset`.',
  },
});

export type ConsensusErrorCode = keyof typeof consensusErrors;

export class ConsensusError extends CodedError<ConsensusErrorCode> {
  constructor(code: ConsensusErrorCode, message: string, options?: CodedErrorOptions) {
    super(consensusErrors, code, message, options);
  }
}
