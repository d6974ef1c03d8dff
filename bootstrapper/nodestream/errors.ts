import { defineErrors, errorClass } from '../../internal/errors/index.ts';

/** Codes of this directory's errors, with meaning and fix. */
export const nodeStreamErrors = defineErrors({
  'nodestream-unit-unknown': {
    fault: 'operator',
    exit: 'usage',
    meaning: 'This is not a unit of the cluster. The logs of other units cannot be read.',
    fix: 'Use one of the listed units.',
  },
  'nodestream-task-unknown': {
    fault: 'peer',
    exit: 'precondition',
    meaning: 'The curator sent a request that this version of the agent does not support.',
    fix: 'Upgrade the agent of this node (`cluster node ls --wide` shows its version).',
  },
});

/** A code of this directory's errors. */
export type NodeStreamErrorCode = keyof typeof nodeStreamErrors;

/** An error with a code of this directory. */
export class NodeStreamError extends errorClass(nodeStreamErrors) {}
