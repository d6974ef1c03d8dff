import { defineErrors, errorClass } from '../../internal/errors/index.ts';

export const nodeStreamErrors = defineErrors({
  'nodestream-unit-unknown': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning: 'The unit is none of those of a cluster node; others are not shown.',
    fix: 'Choose one of the units that the message lists.',
  },
  'nodestream-task-unknown': {
    fault: 'peer',
    exit: 'precondition',
    retryable: false,
    meaning: 'The curator asks for something that this agent does not know.',
    fix: 'Upgrade the agent of this node; `cluster node ls --wide` shows its version.',
  },
});

export type NodeStreamErrorCode = keyof typeof nodeStreamErrors;

export class NodeStreamError extends errorClass(nodeStreamErrors) {}
